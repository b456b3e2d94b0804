"""What decisions about a draft are made from."""

from proxy.dialects.base import View
from proxy.exchange.binding import bound_by
from proxy.exchange.counted import counted_of
from proxy.exchange.ready import Draft
from proxy.exchange.warmth import warmth_of
from proxy.exchange.weigh import results_under
from proxy.pruning.horizon import expected_turns
from proxy.pruning.lasting import Lasting
from proxy.pruning.situation import Situation
from proxy.pruning.standing import behind_marked
from proxy.pruning.strategies.passages import Passages


class Situations:
    """Those of one call, each put together once: mostly all that decide are asked about the very same draft."""

    def __init__(self, now: float) -> None:
        """`now`: Unix time."""
        self._now = now
        self._last: tuple[Draft, Situation] | None = None

    def of(self, draft: Draft, seen: int) -> Situation:
        """The draft's. `seen`: index of the first message that counts as seen by no model."""
        last = self._last
        if last is None or last[0] is not draft or last[1].seen != seen:
            last = self._last = draft, self._made(draft, seen)
        return last[1]

    def _made(self, draft: Draft, seen: int) -> Situation:
        policy = draft.policy
        conversation, notes = draft.received.conversation, draft.received.view.notes
        head = draft.weighed.system + draft.weighed.tools
        warmth = warmth_of(conversation, draft.memory, policy, self._now)
        counted = counted_of(draft)
        marked = notes.extended("marked", lambda known: behind_marked(conversation.messages, known))
        return Situation(
            messages=conversation.messages,
            keys=draft.received.keys,
            seen=seen,
            count=draft.scale.weigh_text,
            parts_tokens=draft.weighed.contents,
            message_tokens=counted.tokens,
            total=draft.context.total,
            least=counted.least,
            counted=counted.rate,
            head=head,
            head_kept=draft.received.view.head_marked or policy.auto_cache,
            plan=draft.plan,
            window=draft.context.room,
            reserve=draft.context.reserve,
            prices=warmth.prices,
            cold=warmth.cold,
            doubtful=warmth.doubtful,
            rewritten=warmth.rewritten,
            pressed=draft.memory.pressed,
            expected_turns=_turns_left(draft),
            model=conversation.model,
            bound=bound_by(draft.received, policy),
            tools=conversation.tools.names,
            results=results_under(draft.received, draft.weighed, draft.scale, draft.plan),
            behind_marked=marked[-1] if marked else 0,
            passages=passages_in(draft.received.view),
            lasting=notes.carried("lasting", Lasting),
        )


def passages_in(view: View) -> Passages:
    """The index of the lines of its results, as far as it has caught up with them."""
    return view.notes.carried("passages", Passages)


def _turns_left(draft: Draft) -> float:
    """Calls that this conversation will probably still make."""
    if draft.policy.horizon is not None:
        return float(draft.policy.horizon)
    line = draft.memory.line
    return expected_turns(draft.policy.lengths.calls, line.turn + 1 if line is not None else 1)
