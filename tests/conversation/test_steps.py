import pytest

from proxy.conversation.steps import Steps, Stepwise, at_once

DONE = []


@Stepwise
def total(*numbers: int, times: int = 1) -> Steps[int]:
    """The sum of these numbers."""
    found = 0
    for number in numbers:
        found += times * number
        DONE.append(number)
        yield
    return found


@pytest.fixture(autouse=True)
def nothing_done():
    DONE.clear()


def test_what_has_steps_can_be_called_like_any_function():
    assert total(1, 2, 3, times=2) == 12
    assert total() == 0
    assert total.__doc__ == "The sum of these numbers."


def test_taken_step_by_step_nothing_is_done_that_was_not_asked_for():
    steps = total.steps(1, 2, 3)
    assert DONE == []
    next(steps)
    next(steps)
    assert DONE == [1, 2]

    assert at_once(steps) == 6
    assert DONE == [1, 2, 3]


def test_what_trips_on_the_way_trips_whoever_asked():
    with pytest.raises(TypeError):
        total(1, "2")
    assert DONE == [1]
