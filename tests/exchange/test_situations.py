from dataclasses import replace

from proxy.exchange.policy import Lengths
from proxy.exchange.ready import draft_of
from proxy.exchange.receive import NO_MEMORY
from proxy.exchange.situations import Situations, passages_in
from proxy.exchange.weigh import weigh
from proxy.pruning.horizon import expected_turns
from proxy.tokens.learn import NOTHING_LEARNED
from tests.builders import QUIET, Line, a_clear, a_received, a_scale, plan_of, rounds, said, user, words

HISTORY = [*rounds(words("old", 1000)), said("read"), user("next")]


def a_draft():
    received, scale = a_received(HISTORY), a_scale()
    plan = plan_of(a_clear(received, 2))
    return draft_of(received, NO_MEMORY, weigh(received, scale), scale, QUIET, NOTHING_LEARNED, plan)


def test_a_situation_is_the_draft_as_it_would_go_out():
    draft = a_draft()
    situation = Situations(5.0).of(draft, 4)

    assert (situation.seen, situation.total, situation.message_tokens) == (4, draft.context.total, draft.tokens)
    assert situation.plan is draft.plan
    assert situation.results[2][0].text == "[gone]"
    assert situation.passages is passages_in(draft.received.view)


def test_the_calls_that_are_expected_are_those_behind_this_one():
    lengths = Lengths(calls=(10,) * 1000)
    line = Line(replace(QUIET, lengths=lengths))
    line.turn(HISTORY)
    received, scale = a_received([*HISTORY, said(), user()], caller=line.caller), line.scale
    second = draft_of(
        received, line.memory(received), weigh(received, scale), scale, line.policy, NOTHING_LEARNED, plan_of()
    )

    assert Situations(5.0).of(second, 4).expected_turns == expected_turns(lengths.calls, 2)


def test_it_is_put_together_once_for_all_that_decide_about_the_same_draft():
    situations, draft = Situations(5.0), a_draft()
    first = situations.of(draft, 4)

    assert situations.of(draft, 4) is first
    assert situations.of(draft, 3).seen == 3
    assert situations.of(draft.under(plan_of()), 3).plan.edits == ()
