"""A file store with a test's defaults, what lies in its file, and other processes that use one."""

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from proxy.stores import sqlite_file
from proxy.stores.sealed import PLAIN
from proxy.stores.sqlite import SqliteStore
from proxy.stores.sqlite_file import connect, open_file
from proxy.stores.sqlite_rows import Pen
from tests.stores.conftest import TTL_S, Clock

ROOT = Path(__file__).parents[2]

_HEAD = """
import asyncio, os, sys
from pathlib import Path
from proxy.conversation.edit import EMPTY_PLAN
from proxy.errors import StoreError
from proxy.ledger.store import Settlement
from tests.stores.conftest import a_plan, a_turn, a_usage, an_anchor, key
from tests.stores.files import a_store
"""


async def until(true, seconds=60.0):
    """Wait for what is to come to pass; a machine may be busy for seconds."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        await asyncio.sleep(0.02)


def rows_in(path, table):
    """The number of rows that the file holds."""
    with contextlib.closing(sqlite3.connect(path)) as reader:
        return reader.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def a_store(path, clock=None, **changes):
    """Patient, since a machine's disk may be busy for seconds; the short patience has its own tests."""
    return SqliteStore(path, **{"ttl_s": TTL_S, "clock": clock or Clock(), "patience_s": 30.0, **changes})


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


def an_older_file(path, version, batches, now):
    """A file as the program of that schema version left it, with these rows in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_file, "MIGRATIONS", sqlite_file.MIGRATIONS[:version])
        patch.setattr(sqlite_file, "TURNS", ("turns",))
        open_file(path, now)
    with contextlib.closing(connect(path, 5.0)) as connection:
        pen = Pen(connection, writer_id=1, ttl_s=TTL_S, sealing=PLAIN)
        for batch in batches:
            pen.commit(batch, now)
