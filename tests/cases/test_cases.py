"""Faults that other proxies had, each replayed against ours."""

from pathlib import Path

import pytest

from tests.cases import replay

pytestmark = pytest.mark.anyio

DATA = Path(__file__).with_name("data")
CASES = sorted(path.stem for path in DATA.glob("C???.json"))
SLOW = ("C068", "C075")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in CASES])
async def test_fault_does_not_happen_here(name, tmp_path):
    assert await replay.failures(DATA / f"{name}.json", tmp_path) == []
