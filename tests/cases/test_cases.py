"""Faults that other proxies had, each replayed against ours."""

from pathlib import Path

import pytest

from tests.cases import replay

pytestmark = pytest.mark.anyio

DATA = Path(__file__).with_name("data")
CASES = (
    "C023",
    "C028",
    "C029",
    "C030",
    "C031",
    "C032",
    "C033",
    "C062",
    "C067",
    "C070",
    "C071",
    "C072",
    "C073",
    "C074",
    "C075",
    "C076",
    "C077",
    "C080",
    "C081",
    "C082",
    "C083",
)
SLOW = ("C075",)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in CASES])
async def test_fault_does_not_happen_here(name, tmp_path):
    assert await replay.failures(DATA / f"{name}.json", tmp_path) == []
