import pytest

from proxy.server.habits import Habit, Habits
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
    await Habits(store).learn_alternates("openai", "m")

    assert await Habits(store).window("openai", "m") == 8192
    assert await Habits(store).reasoning("openai", "m") == "demanded"
    assert await Habits(store).of("openai", "m") == Habit(8192, "demanded", alternates=True)
    assert await Habits(store).of("openai", "n") == Habit(None, "")


async def test_after_a_restart_a_guess_is_still_one_until_a_refusal_names_the_window():
    store, model = a_store(), ("openai", "m")
    await Habits(store).learn_window(*model, 8192, guessed=True)
    guessed, told = Habits(store), Habits(store)
    before = await guessed.window(*model), model in guessed.guessed
    await Habits(store).learn_window(*model, 6000)
    after = await told.window(*model), model in told.guessed

    assert before == (8192, True)
    assert after == (6000, False)


async def test_without_a_store_it_is_known_in_this_process():
    habits = Habits(Failing("learn", "learned"))
    await habits.learn_window("openai", "m", 8192)
    await habits.learn_reasoning("openai", "m", "bound")
    await habits.learn_alternates("openai", "m")

    assert await habits.window("openai", "m") == 8192
    assert await habits.reasoning("openai", "m") == "bound"
    assert await habits.alternates("openai", "m")


async def test_a_store_that_comes_back_is_asked_again():
    store = Failing("learned")
    await Habits(store).learn_window("openai", "m", 8192)
    await Habits(store).learn_reasoning("openai", "m", "refused")
    await Habits(store).learn_alternates("openai", "m")
    habits = Habits(store)

    assert await habits.of("openai", "m") == Habit(None, "")
    store.mended = True
    assert await habits.of("openai", "m") == Habit(8192, "refused", alternates=True)


async def test_a_lesson_of_a_later_version_counts_as_none():
    store = a_store()
    await store.learn("reasoning/openai/m", b"something new")

    assert await Habits(store).reasoning("openai", "m") == ""


async def test_what_was_read_once_is_known_without_the_store():
    habits = Habits(a_store())
    assert habits.known("openai", "m") is None
    assert await habits.of("openai", "m") == habits.known("openai", "m") == Habit(None, "")
    await habits.learn_window("openai", "m", 8192)
    await habits.learn_reasoning("openai", "m", "bound")

    assert habits.known("openai", "m") == Habit(8192, "bound")


async def test_a_list_that_came_later_is_known_too():
    habits = Habits(a_store())
    await habits.of("openai", "m")
    await habits.learn_list("openai", {"m": 4096})

    assert habits.known("openai", "m") == Habit(4096, "")


async def test_what_a_store_could_not_tell_is_not_known():
    habits = Habits(Failing("learned"))

    assert await habits.of("openai", "m") == Habit(None, "")
    assert habits.known("openai", "m") is None


async def test_models_that_a_client_makes_up_push_out_others_which_are_read_again(monkeypatch):
    monkeypatch.setattr("proxy.server.bounded.MOST_MODELS", 3)
    habits = Habits(a_store())
    await habits.learn_window("openai", "m", 8192)
    await habits.learn_reasoning("openai", "m", "demanded")
    for number in range(20):
        await habits.window("openai", f"made-up-{number}")
        await habits.reasoning("openai", f"made-up-{number}")

    assert len(habits._windows) == len(habits._reasoning) == 3
    assert (await habits.window("openai", "m"), await habits.reasoning("openai", "m")) == (8192, "demanded")


async def test_a_window_that_was_wrong_is_forgotten_for_good():
    store = a_store()
    habits = Habits(store)
    await habits.learn_window("openai", "m", 8192)
    await habits.learn_window("openai", "n", 8192)

    await habits.disproved("openai", "m", 4096)
    assert await habits.window("openai", "m") == 8192
    await habits.disproved("openai", "m", 8192)
    assert await habits.window("openai", "m") is None
    assert await Habits(store).window("openai", "m") is None
    assert await Habits(store).window("openai", "n") == 8192


async def test_a_list_that_comes_in_pages_is_known_whole():
    store = a_store()
    habits = Habits(store)
    await habits.learn_list("anthropic", {"a": 100_000, "b": 200_000})
    await habits.learn_list("anthropic", {"c": 300_000})
    await Habits(store).learn_list("anthropic", {"b": 150_000})
    again = Habits(store)

    assert [await again.window("anthropic", name) for name in "abc"] == [100_000, 150_000, 300_000]


async def test_of_very_many_listed_models_the_newest_are_known():
    habits = Habits(a_store())
    for page in range(3):
        await habits.learn_list("many", {f"m{page}-{number}": 8_192 for number in range(1_000)})

    assert await habits.window("many", "m0-0") is None
    assert await habits.window("many", "m1-0") == await habits.window("many", "m2-999") == 8_192
