"""Tables by model or conversation, bounded: both come from clients, who may make up any number of them."""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

MOST_MODELS = 1024
"""Pairs of upstream and model that anything is known of in memory; what is forgotten is read from the store again."""


def put(table: dict[K, V], key: K, value: V) -> None:
    """Put the value in; where the table is full, what came in first goes."""
    if key not in table and len(table) >= MOST_MODELS:
        del table[next(iter(table))]
    table[key] = value
