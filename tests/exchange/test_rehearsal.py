"""A finished conversation, played again."""

from itertools import pairwise, product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.compaction.policy import PRESETS as COMPACT
from proxy.conversation.edit import Summarise
from proxy.conversation.model import Conversation, Tools
from proxy.exchange.rehearsal import NEVER, rehearse, script_of, totals
from proxy.pruning.policy import PRESETS, ArrivePolicy, PrunePolicy
from proxy.pruning.situation import Prices
from proxy.tokens.estimate import Memo, Scale
from tests.pruning.builders import answered, call, count, result, rounds, user, words

PRICES = Prices(read=0.1, write=1.25)
OFF = (ArrivePolicy(enabled=False), PrunePolicy(policy="pressure"))
EAGER = (ArrivePolicy(), PrunePolicy(policy="always", protect_tokens=0, minimum_tokens=0))


def a_script(*messages):
    conversation = Conversation(
        dialect="openai_chat",
        model="m",
        system=(),
        tools=Tools(digest=b"t", text="[]", names=("read",)),
        messages=tuple(messages),
        stream=False,
        max_output=None,
    )
    return script_of(conversation, Scale(encoding="x", count=count, dialect="openai_chat", model="m", memo=Memo()))


def play(script, policy, prices=PRICES, breakpoints=False, compacting=NEVER):
    return list(
        rehearse(
            script,
            *policy,
            prices=prices,
            window=None,
            reserve=0,
            count=count,
            breakpoints=breakpoints,
            compacting=compacting,
        )
    )


def test_each_call_sent_what_stands_before_its_answer():
    script = a_script(*answered(rounds(words("a", 50), words("b", 50))), user())

    assert [(step.start, step.end) for step in play(script, OFF)] == [(0, 1), (1, 3), (3, 5), (5, 7)]


def test_a_policy_that_does_nothing_changes_nothing():
    sums = totals(play(a_script(*answered(rounds(words("a", 500), words("b", 500)))), OFF), PRICES)

    assert (sums.sent, sums.cost, sums.breaks) == (sums.direct, sums.direct_cost, 0)


def test_everything_is_written_at_the_first_call_and_read_at_later_ones():
    steps = play(a_script(*answered(rounds(words("a", 500)))), OFF)

    assert steps[0].cost(PRICES) == pytest.approx(1.25 * steps[0].sent)
    assert steps[1].cost(PRICES) == pytest.approx(0.1 * steps[0].sent + 1.25 * (steps[1].sent - steps[0].sent))
    assert steps[1].cost(None) == steps[1].sent


def test_an_edit_breaks_the_cache_behind_it_and_stays():
    steps = play(a_script(*answered(rounds(*(words(str(n), 500) for n in range(4))))), EAGER)

    assert [len(step.edits) for step in steps] == [0, 0, 1, 1, 1]
    assert steps[2].broke
    assert steps[2].kept == 2
    assert steps[2].cached < steps[2].direct_cached
    assert steps[-1].direct - steps[-1].sent == sum(
        edit.tokens_before - edit.tokens_after for step in steps for edit in step.edits
    )


@pytest.mark.parametrize("profile", PRESETS)
@pytest.mark.parametrize("prices", [PRICES, Prices(read=0.05, write=1.25), Prices(read=0.5, write=1.0), None])
@pytest.mark.parametrize("sizes", [(4000,) * 30, (100, 9000) * 8, (3000, 200, 200, 200) * 6, (20_000,), (700,) * 50])
def test_no_conversation_ends_more_than_one_percent_dearer_wherever_it_ends(profile, prices, sizes):
    texts = [words(str(number), size) for number, size in enumerate(sizes)]
    script = a_script(*answered(rounds(*texts)))
    kinds = (False, True) if prices and prices.breakpoints else (False,)
    for steps, end in product(
        (play(script, PRESETS[profile], prices, kind, COMPACT[profile]) for kind in kinds), range(1, len(texts) + 1)
    ):
        sums = totals(steps[:end], prices)

        assert sums.cost <= 1.01 * sums.direct_cost


@given(
    sizes=st.lists(st.integers(50, 4000), min_size=1, max_size=12),
    profile=st.sampled_from(sorted(PRESETS)),
    prices=st.builds(
        Prices,
        read=st.sampled_from([0.1, 0.25, 0.5]),
        write=st.sampled_from([1.0, 1.25]),
        minimum=st.sampled_from([1024, 2048, 4096]),
    ),
)
@example(sizes=[50, 169, 3913], profile="bold", prices=Prices(read=0.1, write=1.0, minimum=4096))
def test_nor_does_it_where_a_cache_has_a_minimum(sizes, profile, prices):
    """What is left may not be too little for the cache, whatever its placeholders come to."""
    script = a_script(*answered(rounds(*(words(str(number), size) for number, size in enumerate(sizes)))), user())
    steps = play(script, PRESETS[profile], prices, prices.breakpoints, COMPACT[profile])

    for end in range(1, len(steps) + 1):
        sums = totals(steps[:end], prices)

        assert sums.cost <= 1.01 * sums.direct_cost


def written(number):
    """A call that writes a file."""
    yield call(f"c{number}", "write", f'{{"text": "{words(str(number), 1000)}"}}')
    yield result(f"c{number}", "ok")


def test_early_records_stand_side_by_side_and_save():
    script = a_script(user(), *(message for number in range(80) for message in written(number)), user())
    steps = play(script, PRESETS["bold"], Prices(read=0.25, write=1.0), compacting=COMPACT["bold"])
    records = [edit for step in steps for edit in step.edits if isinstance(edit, Summarise)]
    place = {key: index for index, key in enumerate(script.keys)}
    ranges = [(place[record.first], place[record.last]) for record in records]
    alone = play(script, PRESETS["bold"], Prices(read=0.25, write=1.0))

    assert len(records) > 1
    assert all(earlier[1] + 1 == later[0] for earlier, later in pairwise(ranges))
    assert totals(steps, PRICES).sent < totals(alone, PRICES).sent
