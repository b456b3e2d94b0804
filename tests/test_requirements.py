"""The requirements (R) and computed values (C) that this program was asked for, each found in the name of a test.

Where a name holds r21 or c53, the test states that requirement or value. Numbers are added here when their tests come.
"""

import re
from pathlib import Path

REQUIREMENTS = (
    *range(1, 15),  # the formula, its parts, its display and its edges; reasoning, the ledger, what is learned
    *range(16, 44),  # one number, streams, compaction, pruning, originals, the queue, windows, what people see
)
# Not R15: an exact counter asked near the threshold, which the reported usage of the call before makes needless.
# Not C9, C13, C25, C29 and C30: they state other programs' rules (rounding up, characters for tokens,
# arguments that are cleared, a limit that includes its value, a second limit).
VALUES = (
    *range(1, 9),
    *range(10, 13),
    *range(14, 23),
    *(24, 26, 27, 28),
    *range(31, 58),
)

_NAME = re.compile(r"def test_(\w+)")
_NUMBER = re.compile(r"(?:^|_)([rc])(\d{1,2})(?=_)")


def named():
    found = set()
    for path in Path(__file__).parent.rglob("test_*.py"):
        for name in _NAME.findall(path.read_text("utf-8")):
            found.update((letter, int(number)) for letter, number in _NUMBER.findall(name))
    return found


def test_each_requirement_has_a_test_that_names_it():
    assert {number for number in REQUIREMENTS if ("r", number) not in named()} == set()


def test_each_computed_value_has_a_test_that_names_it():
    assert {number for number in VALUES if ("c", number) not in named()} == set()
