"""Port a TensorFlow layer to plain arrays: a 3x3 average with stride 2 and SAME padding, forward and backward.

In TensorFlow:

    y = tf.nn.avg_pool2d(x, ksize=3, strides=2, padding="SAME")
    with tf.GradientTape() as tape: ...
    dx = tape.gradient(loss, x)

Here, a small layer with the same numbers, its gradient checked two ways. If TensorFlow is installed, it is asked too.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

import poolgrad as pg


class SameAverage:
    """A layer: ``forward`` keeps what ``backward`` needs, which for an average is only the table."""

    def __init__(self, window: int, stride: int) -> None:
        self.window, self.stride = window, stride

    def forward(self, x: Any) -> Any:
        self.table = pg.sliding(x.shape[1:3], self.window, self.stride, padding="SAME")
        return pg.avg_pool(x, self.table, data_format="NHWC")

    def backward(self, grad: Any) -> Any:
        return pg.avg_pool_grad(grad, self.table, data_format="NHWC")


rng = np.random.default_rng(0)
x = rng.standard_normal((2, 15, 20, 8))
layer = SameAverage(window=3, stride=2)
y = layer.forward(x)
print(f"x {x.shape} -> y {y.shape}: {layer.table}")

# The loss sum(y**2) / 2 has gradient y at the layer's output.
dx = layer.backward(y)

# 1. A gradient is right if it predicts a small change: loss(x + h) - loss(x - h) = 2 h . dx for this quadratic loss.
h = rng.standard_normal(x.shape) * 1e-3
change = ((layer.forward(x + h) ** 2).sum() - (layer.forward(x - h) ** 2).sum()) / 2
predicted = 2 * (h * dx).sum()
print(f"change of the loss {change:.12f}, predicted by the gradient {predicted:.12f}")
assert abs(change - predicted) < 1e-12

# 2. The raw op that TensorFlow's own gradient calls has its namesake, which gives the very same bits.
sizes = {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
assert (pg.raw_ops.AvgPoolGrad(x.shape, y, **sizes) == dx).all()

# SAME never counts padding: the corner window holds 2x3 of the input, not 3x3.
(top, bottom), (left, right) = (axis.window(0) for axis in layer.table.axes)
assert np.isclose(y[0, 0, 0, 0], x[0, top:bottom, left:right, 0].mean())
print(f"the corner is a mean over rows {top}:{bottom}, columns {left}:{right}")

if importlib.util.find_spec("tensorflow"):
    import tensorflow as tf

    variable = tf.Variable(x)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.nn.avg_pool2d(variable, 3, 2, "SAME") ** 2) / 2
    theirs = tape.gradient(loss, variable).numpy()
    print(f"largest difference from TensorFlow's gradient: {abs(theirs - dx).max():.1e}")
    assert np.allclose(theirs, dx, rtol=1e-12, atol=1e-12)
