"""Long computations that can be taken in pieces: what is pure cannot wait, but it can say where somebody else may have a turn."""

from collections.abc import Callable, Generator
from functools import update_wrapper
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Steps = Generator[None, None, T]
"""Yields wherever it may have taken some milliseconds; returns what came of it."""


STEP_CHARS = 64 * 1024
"""Of text: to look for names in so much takes up to 3 ms."""


class Stepwise(Generic[P, T]):
    """Decorates such a generator: to be called like any function, or taken step by step (`steps`)."""

    def __init__(self, steps: Callable[P, Steps[T]]) -> None:
        self.steps = steps
        update_wrapper(self, steps)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """What comes of it, without a pause."""
        return at_once(self.steps(*args, **kwargs))


def at_once(steps: Steps[T]) -> T:
    """What comes of steps that have begun, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
