import gc
import subprocess
import sys

from proxy.server.imports import UNUSED, load_without, uncollected


def names_after(program):
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {program}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_a_library_comes_without_what_it_would_bring():
    found = names_after("from proxy.server.imports import load_without; load_without()")

    assert set(UNUSED) <= found
    assert not set(UNUSED.values()) & found


def test_what_was_left_out_can_be_imported_afterwards():
    found = names_after(
        "from proxy.server.imports import load_without; load_without(); import rich.console, watchfiles"
    )

    assert set(UNUSED.values()) <= found


def test_what_is_loaded_already_stays():
    import json.decoder

    load_without({"json.encoder": "json.decoder"})

    assert sys.modules["json.decoder"] is json.decoder


def test_what_was_imported_is_never_looked_at_again():
    before = gc.get_freeze_count()
    with uncollected():
        assert not gc.isenabled()
        kept = [[]]

    assert gc.isenabled()
    assert gc.get_freeze_count() > before
    assert kept
    gc.unfreeze()
