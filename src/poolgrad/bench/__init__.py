"""The benchmark that a user can run: ``poolgrad bench``. See docs/performance.md for how it measures."""

from .command import main

__all__ = ["main"]
