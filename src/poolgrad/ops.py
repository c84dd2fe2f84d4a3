"""Pooling and its derivatives on NumPy arrays, over any `WindowTable`.

Each family stands together: forward, then its transpose. Averages are linear, so the gradient's gradient is the
forward op; a max is linear once its winners are fixed: `max_pool_grad` scatters by winner, `take_winners` takes.
"""

from .averages import avg_pool, avg_pool_grad, sum_pool, sum_pool_grad
from .maxima import max_pool, max_pool_grad, min_pool, min_pool_grad, take_winners

__all__ = ["avg_pool", "avg_pool_grad", "sum_pool", "sum_pool_grad"]
__all__ += ["max_pool", "max_pool_grad", "min_pool", "min_pool_grad", "take_winners"]
