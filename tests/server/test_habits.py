import pytest

from proxy.server.habits import Habits
from tests.server.stores import Failing, a_store

pytestmark = pytest.mark.anyio


async def test_a_window_is_unknown_until_an_overflow_teaches_it():
    habits = Habits(a_store())

    assert await habits.window("openai", "m") is None
    await habits.learn_window("openai", "m", 8192)
    assert await habits.window("openai", "m") == 8192


async def test_windows_belong_to_an_upstream_and_a_model():
    habits = Habits(a_store())
    await habits.learn_window("openai", "m", 8192)

    assert await habits.window("other", "m") is None
    assert await habits.window("openai", "n") is None


async def test_a_restart_does_not_have_to_learn_again():
    store = a_store()
    await Habits(store).learn_window("openai", "m", 8192)
    await Habits(store).learn_reasoning("openai", "m", "demanded")

    assert await Habits(store).window("openai", "m") == 8192
    assert await Habits(store).reasoning("openai", "m") == "demanded"


async def test_without_a_store_it_is_known_in_this_process():
    habits = Habits(Failing("learn", "learned"))
    await habits.learn_window("openai", "m", 8192)
    await habits.learn_reasoning("openai", "m", "bound")

    assert await habits.window("openai", "m") == 8192
    assert await habits.reasoning("openai", "m") == "bound"


async def test_a_store_that_comes_back_is_asked_again():
    store = Failing("learned")
    await Habits(store).learn_window("openai", "m", 8192)
    await Habits(store).learn_reasoning("openai", "m", "refused")
    habits = Habits(store)

    assert await habits.window("openai", "m") is None
    assert await habits.reasoning("openai", "m") == ""
    store.mended = True
    assert await habits.window("openai", "m") == 8192
    assert await habits.reasoning("openai", "m") == "refused"


async def test_a_lesson_of_a_later_version_counts_as_none():
    store = a_store()
    await store.learn("reasoning/openai/m", b"something new")

    assert await Habits(store).reasoning("openai", "m") == ""
