"""Our own calls of a case, and the limit: a kernel that only reads and writes the bytes the op must read and write."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core, ops, raw_ops
from ..arrays import Array, bits
from .peers.child import burst, calibrate, numbers, sample
from .workloads import OVERHEAD, Case, arranged, dtype_of

Call = Callable[[], Any]


class Local:
    """The calls of one case in this process, by name, and the buffers they share.

    Names are ``(what, layout, workers)``: what is "ours" (with ``out=``), "fresh" (a new result each time), "plain" or
    "streaming" (the limit with either kind of stores).
    """

    def __init__(self, case: Case, workers: int) -> None:
        self.case = case
        self.calls: dict[tuple[str, str, int], Call] = {}
        self.scratch: dict[str, int] = {}
        self.sample: list[float] = []
        self._buffers: dict[tuple[str, int], Array] = {}
        dtype = dtype_of(case.dtype)
        self._x = numbers(case.workload.input, dtype, 1)
        self._grad = numbers(case.workload.output, dtype, 2)
        counts = (workers, 1) if case.large and workers > 1 else (workers,)
        for layout in case.layouts:
            for count in counts:
                self.calls["ours", layout, count] = self._ours(layout, count, fresh=case.workload.name == OVERHEAD)
            _core.scratch_peak(True)
            result = self.calls["ours", layout, workers]()
            self.scratch[layout] = _core.scratch_peak(True)
            if not self.sample:  # the first layout is channels last
                self.sample = sample(np.asarray(result[0] if isinstance(result, tuple) else result, np.float64))
        self.calls["fresh", case.layouts[0], workers] = self._ours(case.layouts[0], workers, fresh=True)
        for count in counts:
            for what in ("plain", "streaming"):
                self.calls[what, "", count] = self._limit(what == "streaming", count)
        self._counts = {name: calibrate(call) for name, call in self.calls.items()}

    def participant(self, name: tuple[str, str, int]) -> Callable[[float], float]:
        return lambda seconds: burst(self.calls[name], seconds, self._counts[name])

    def _ours(self, layout: str, workers: int, fresh: bool) -> Call:
        case, load = self.case, self.case.workload
        first = layout == "NCHW"
        x = self._x.reshape(arranged(load.input, first))  # the same numbers in another order: as good for timing
        grad = self._grad.reshape(arranged(load.output, first))
        raw = case.raw_call(layout)
        if raw is not None:
            return self._raw(*raw, x, grad, workers, fresh)
        axes = "DHW"[3 - load.spatial :]
        where: dict[str, Any] = {"data_format": f"NC{axes}" if first else f"N{axes}C", "workers": workers}
        table = load.table
        if case.step == "ready":
            return lambda: ops.avg_pool_grad(grad, table, **where)
        call: Callable[..., Any] = ops.max_pool
        given: tuple[Any, ...] = (x, table)
        outputs: Any = self._out(0, grad.shape, grad.dtype)
        if load.kind == "average":  # of integers: the exact mean, in their own type
            call, where["dtype"] = ops.avg_pool, x.dtype
        elif case.step == "winners":
            where["return_winners"] = True
            outputs = (outputs, self._out(1, grad.shape, table.winner_dtype))
        elif case.step == "saved":
            _, winners = ops.max_pool(x, table, return_winners=True, **where)
            call, given, outputs = ops.max_pool_grad, (grad, table, winners), self._out(0, x.shape, x.dtype)
        if not fresh:
            where["out"] = outputs
        return lambda: call(*given, **where)

    def _raw(self, name: str, given: dict[str, Any], x: Array, grad: Array, workers: int, fresh: bool) -> Call:
        ready = raw_ops.plan(name, **given)
        function = getattr(raw_ops, name)
        tensors = {"input": x, "output": grad}
        for argument in ready.op.arguments:
            if argument.kind == "tensor":
                given[argument.name] = tensors[argument.side]
        if "orig_output" in given:
            given["orig_output"] = np.empty_like(grad)
            _core.max_pool(bits(x), bits(given["orig_output"]), None, *ready.frame, False, workers)
        given["workers"] = workers
        if not fresh:
            shapes, dtypes = ready.result_shapes.values(), ready.result_dtypes.values()
            outputs = tuple(map(self._out, range(len(shapes)), shapes, dtypes))
            given["out"] = outputs[0] if len(outputs) == 1 else outputs
        return lambda: function(**given)

    def _limit(self, streaming: bool, workers: int) -> Call:
        reads, writes = self.case.traffic
        source, sink = self._buffer("source", reads), self._buffer("0", writes)
        return lambda: _core.limit_copy(source, sink, reads, writes, streaming, workers)

    def _out(self, position: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        size = math.prod(shape) * dtype.itemsize
        return self._buffer(str(position), size).view(dtype).reshape(shape)

    def _buffer(self, use: str, size: int) -> Array:
        """Memory that the calls of a case share: the largest results have gigabytes."""
        key = use, size
        if key not in self._buffers:
            # Memory that was never written is one shared page of zeros, which would be read from the cache: fill it.
            self._buffers[key] = np.ones(size, np.uint8)
        return self._buffers[key]
