"""Starting fast: what is loaded without what is never used, and without looking for garbage meanwhile."""

import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Final

UNUSED: Final = {
    # Draws tracebacks on a terminal; the log never has one.
    "structlog": "rich",
    # Starts the server again when a source file changes.
    "uvicorn": "watchfiles",
}
"""Library → what it would bring, and does without where that is not installed: 60 ms of every start and 5 MB."""


def load_without(unused: Mapping[str, str] = UNUSED) -> None:
    """Import the libraries as if what they would bring were not installed; whoever imports that later gets it as ever."""
    for library, other in unused.items():
        with _hidden(other):
            import_module(library)


@contextmanager
def uncollected() -> Iterator[None]:
    """While much is imported, all of it stays: looking for garbage is a twentieth of a start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def _hidden(name: str) -> Iterator[None]:
    """Within this, importing the module fails: https://docs.python.org/3/reference/import.html#the-module-cache."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # the documented way to say so
    try:
        yield
    finally:
        del sys.modules[name]
