"""
Native core of poolgrad: window tables and kernels over C-contiguous CPU memory [outer, depth, height, width, inner].
"""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy
from numpy.typing import NDArray

class Axis:
    """
    One pooled axis: its windows, their divisors and, seen from the input, their covers.
    """

    @staticmethod
    def regular(
        input_size: int,
        output_size: int,
        window: int,
        stride: int,
        before: int,
        count_before: int = 0,
        count_after: int = 0,
        divisor: int = 0,
        reach: int = 0,
    ) -> Axis: ...
    @staticmethod
    def listed(
        input_size: int,
        start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        stop: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        divisor: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        reach: int = 0,
    ) -> Axis: ...
    @property
    def input_size(self) -> int: ...
    @property
    def output_size(self) -> int: ...
    @property
    def reach(self) -> int: ...
    @property
    def rule(self) -> tuple[int, int, int, int, int, int, int, int, int] | None: ...
    def window(self, output: int) -> tuple[int, int]: ...
    def divisor(self, output: int) -> int: ...
    def cover(self, input: int) -> tuple[int, int]: ...
    def windows(self, first: int, last: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None, None))]: ...
    def part(self, first: int, last: int) -> tuple[Axis, int, int]: ...

class Table:
    """The product of 1 to 3 axes."""

    def __init__(self, axes: Sequence[Axis]) -> None: ...
    @property
    def input_size(self) -> tuple[int, ...]: ...
    @property
    def output_size(self) -> tuple[int, ...]: ...
    @property
    def winner_bytes(self) -> int: ...

def avg_pool(
    source: Annotated[NDArray[Any], dict(order="C", device="cpu", writable=False)],
    destination: Annotated[NDArray[Any], dict(order="C", device="cpu")],
    table: Table,
    outer: int,
    inner: int,
    kind: int,
    workers: int,
) -> None: ...
def mean_pool(
    source: Annotated[NDArray[Any], dict(order="C", device="cpu", writable=False)],
    destination: Annotated[NDArray[Any], dict(order="C", device="cpu")],
    table: Table,
    outer: int,
    inner: int,
    kind: int,
    destination_kind: int,
    workers: int,
) -> None: ...
def avg_pool_grad(
    source: Annotated[NDArray[Any], dict(order="C", device="cpu", writable=False)],
    destination: Annotated[NDArray[Any], dict(order="C", device="cpu")],
    table: Table,
    outer: int,
    inner: int,
    kind: int,
    workers: int,
) -> None: ...
def max_pool(
    source: Annotated[NDArray[Any], dict(order="C", device="cpu", writable=False)],
    values: Annotated[NDArray[Any], dict(order="C", device="cpu")] | None,
    winners: Annotated[NDArray[Any], dict(order="C", device="cpu")] | None,
    table: Table,
    outer: int,
    inner: int,
    kind: int,
    minimum: bool,
    workers: int,
) -> None: ...
def max_pool_grad(
    grad: Annotated[NDArray[Any], dict(order="C", device="cpu", writable=False)],
    winners: Annotated[NDArray[Any], dict(order="C", device="cpu", writable=False)],
    destination: Annotated[NDArray[Any], dict(order="C", device="cpu")],
    table: Table,
    outer: int,
    inner: int,
    kind: int,
    workers: int,
) -> int: ...
def max_pool_grad_from_input(
    orig_input: Annotated[NDArray[Any], dict(order="C", device="cpu", writable=False)],
    orig_output: Annotated[NDArray[Any], dict(order="C", device="cpu", writable=False)] | None,
    grad: Annotated[NDArray[Any], dict(order="C", device="cpu", writable=False)],
    destination: Annotated[NDArray[Any], dict(order="C", device="cpu")],
    table: Table,
    outer: int,
    inner: int,
    kind: int,
    minimum: bool,
    workers: int,
) -> int: ...
def take_winners(
    source: Annotated[NDArray[Any], dict(order="C", device="cpu", writable=False)],
    winners: Annotated[NDArray[Any], dict(order="C", device="cpu", writable=False)],
    destination: Annotated[NDArray[Any], dict(order="C", device="cpu")],
    table: Table,
    outer: int,
    inner: int,
    kind: int,
    workers: int,
) -> int: ...
def scatter_indices(
    grad: Annotated[NDArray[Any], dict(order="C", device="cpu", writable=False)],
    indices: Annotated[NDArray[Any], dict(order="C", device="cpu", writable=False)],
    destination: Annotated[NDArray[Any], dict(order="C", device="cpu")],
    outer: int,
    count: int,
    size: int,
    kind: int,
    workers: int,
) -> int: ...
def gather_indices(
    source: Annotated[NDArray[Any], dict(order="C", device="cpu", writable=False)],
    indices: Annotated[NDArray[Any], dict(order="C", device="cpu", writable=False)],
    destination: Annotated[NDArray[Any], dict(order="C", device="cpu")],
    outer: int,
    count: int,
    size: int,
    kind: int,
    workers: int,
) -> int: ...
def isa() -> str: ...
def scratch_peak(reset: bool) -> int: ...
def limit_copy(
    source: Annotated[NDArray[Any], dict(order="C", device="cpu", writable=False)],
    destination: Annotated[NDArray[Any], dict(order="C", device="cpu")],
    read_bytes: int,
    write_bytes: int,
    streaming: bool,
    workers: int,
) -> None: ...
