"""Pooling and its gradients on plain arrays."""

from . import presets, raw_ops, sequences
from .drawing import draw
from .makers import adaptive, fractional, intervals, sliding
from .ops import (
    avg_pool,
    avg_pool_grad,
    max_pool,
    max_pool_grad,
    min_pool,
    min_pool_grad,
    sum_pool,
    sum_pool_grad,
    take_winners,
)
from .window_table import WindowTable
from .winners import indices_to_winners, winners_to_indices
from .workers import get_workers, set_workers, use_workers

__version__ = "0.1.0"

__all__ = ["WindowTable", "sliding", "fractional", "adaptive", "intervals", "draw"]
__all__ += ["avg_pool", "avg_pool_grad", "sum_pool", "sum_pool_grad"]
__all__ += ["max_pool", "max_pool_grad", "min_pool", "min_pool_grad", "take_winners"]
__all__ += ["winners_to_indices", "indices_to_winners"]
__all__ += ["presets", "raw_ops", "sequences", "get_workers", "set_workers", "use_workers"]


def __dir__() -> list[str]:
    """What Tab shows: the public names."""
    return [*__all__, "__version__"]
