import pytest

from tests.pruning.builders import a_situation, user


@pytest.mark.parametrize(("window", "reserve", "usable"), [(1000, 300, 700), (1000, 2000, 0), (None, 300, None)])
def test_usable_is_the_window_without_the_reserve(window, reserve, usable):
    assert a_situation([user()], window=window, reserve=reserve).usable == usable
