"""Names that clients make up fill no memory."""

import pytest

from proxy.server.bounded import put


@pytest.fixture(autouse=True)
def _two(monkeypatch):
    monkeypatch.setattr("proxy.server.bounded.MOST_MODELS", 2)


def test_a_full_table_forgets_what_came_in_first():
    table = {}
    for key in "abca":
        put(table, key, key.upper())

    assert table == {"c": "C", "a": "A"}


def test_a_new_value_of_a_known_key_pushes_nothing_out():
    table = {"a": 1, "b": 2}
    put(table, "a", 3)

    assert table == {"a": 3, "b": 2}
