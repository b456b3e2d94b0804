"""A file store with a test's defaults, and other processes that use one."""

import subprocess
import sys
import textwrap
from pathlib import Path

from proxy.stores.sqlite import SqliteStore
from tests.stores.conftest import TTL_S, Clock

ROOT = Path(__file__).parents[2]

_HEAD = """
import asyncio, os, sys
from pathlib import Path
from proxy.conversation.edit import EMPTY_PLAN
from proxy.errors import StoreError
from tests.stores.conftest import a_plan, a_turn, a_usage, an_anchor, key
from tests.stores.files import a_store
"""


def a_store(path, clock=None, **changes):
    return SqliteStore(path, **{"ttl_s": TTL_S, "clock": clock or Clock(), **changes})


def run_beside(code, *arguments):
    """Another Python process with the store's builders at hand."""
    return subprocess.Popen(
        [sys.executable, "-c", _HEAD + textwrap.dedent(code), *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process):
    """The words that it printed; it must have ended well."""
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out.split()
