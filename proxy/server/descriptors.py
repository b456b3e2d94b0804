"""How many files and connections the process may have open: every call takes two."""

import contextlib
import resource
from typing import Final

_USUAL_MOST: Final = 10_240
"""Where the hard limit is without end, the system takes no more than some number of its own (macOS: OPEN_MAX)."""


def raise_limit() -> int:
    """Raise the soft limit as far as the process may; gives what it is then.

    Shells and service managers start programs with 1,024 (macOS: 256), which is for those that use `select`; a few hundred
    streams take more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (hard, _USUAL_MOST):
        if soft == hard or 0 <= wanted <= soft:
            break
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            break
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
