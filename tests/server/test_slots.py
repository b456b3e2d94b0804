import os
import random

import pytest

from proxy.server.slots import Slots


def test_each_slot_has_what_was_written_last():
    slots = Slots(3)
    slots.write(0, b"one")
    slots.write(1, b"two, longer")
    slots.write(1, b"three")

    assert [slots.read(index) for index in range(len(slots))] == [b"one", b"three", b""]


def test_what_does_not_fit_is_refused_and_leaves_what_stood_there():
    slots = Slots(1, half_bytes=100)
    slots.write(0, b"x")

    assert not slots.write(0, b"y" * 100)
    assert slots.read(0) == b"x"


@pytest.mark.parametrize("writes", [1, 2, 5])
def test_a_writer_that_dies_in_the_middle_leaves_the_writing_before(writes):
    slots = Slots(1, half_bytes=1024)
    for number in range(writes):
        slots.write(0, b"whole %d" % number)
    memory = slots._slots[0]
    at = (writes + 1) % 2 * 1024
    # The head of the half whose turn it is still names what stood there before.
    memory[at + 16 : at + 20] = b"torn"

    assert slots.read(0) == b"whole %d" % (writes - 1)
    assert slots.write(0, b"next")
    assert slots.read(0) == b"next"


# The other process takes no lock that a thread of this one could hold, and ends without clearing up.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_another_process_never_reads_a_half_written_value():
    slots = Slots(1)
    noise = random.Random(1)
    values = [bytes([number]) * noise.randrange(1, 200_000) for number in range(1, 200)]
    slots.write(0, values[0])
    pid = os.fork()
    if pid == 0:
        for value in values:
            slots.write(0, value)
        os._exit(0)
    seen = set()
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        value = slots.read(0)
        assert len(set(value)) <= 1
        seen.add(value[:1])

    assert slots.read(0) == values[-1]
    assert seen <= {value[:1] for value in values} | {b""}
