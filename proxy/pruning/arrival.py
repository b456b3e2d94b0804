"""What happens to a result before any model has seen it."""

from collections.abc import Callable

from proxy.conversation.edit import Edit, Replace, ResultEdit, edits_of
from proxy.pruning.policy import ArrivePolicy
from proxy.pruning.reading import offers_editing
from proxy.pruning.results import Standing
from proxy.pruning.situation import Situation, sent_before, stays_cached
from proxy.pruning.standing import first_open, standing_results
from proxy.pruning.strategies.ansi import ansi
from proxy.pruning.strategies.cap import cap
from proxy.pruning.strategies.collapse import collapse
from proxy.pruning.strategies.repeats import Earlier, Repeat, repeats

_WORTH_TOKENS = 30
"""An edit must save more: below that the text is only made harder to read."""
_BESIDE_MEDIA = 0.25
"""Of what a result may take at most: what its text gets where its media alone take all of that."""
_WORTH_CHARS = 200
"""A shorter text is no longer than the reference that would stand in its place."""


def arrive(situation: Situation, policy: ArrivePolicy) -> tuple[Edit, ...]:
    """Edits of unseen results, at most one for each. Nothing here can break a prompt cache or a signature.

    Nor may a request become too small for the cache.
    """
    if not policy.enabled or situation.seen >= len(situation.messages):
        return ()
    unseen = [
        standing
        # The calls of unseen results stand in the answer behind it.
        for standing in standing_results(situation, since=sent_before(situation))
        if standing.message >= situation.seen and not (standing.edit or standing.broken or standing.result.fixed)
    ]
    fresh = [standing for standing in unseen if not _is_only_cut(standing)]
    cuts = [edit for standing in unseen if _is_only_cut(standing) and (edit := _cut(standing, situation, policy))]
    if not fresh:
        return tuple(cuts)
    before = _whole_before(situation) if policy.repeats else None
    beside: list[Earlier] = []
    edits: list[Edit] = [*cuts]
    removed = sum(edit.tokens_before - edit.tokens_after for edit in cuts)
    for standing in fresh:
        looks_back = before is not None and len(standing.result.text) > _WORTH_CHARS
        earlier = [*before(standing.result.text), *beside] if before is not None and looks_back else []
        edit = _edit(standing, earlier, situation, policy)
        saved = edit.tokens_before - edit.tokens_after if edit is not None else 0
        if edit is not None and saved > _WORTH_TOKENS and _may_go(edit, situation, removed + saved):
            edits.append(edit)
            removed += saved
        else:
            beside.append(Earlier(standing.key, standing.part, standing.result.text, standing.call))
    return tuple(edits)


def _may_go(edit: Replace, situation: Situation, removed: int) -> bool:
    """Whether the cache still takes what is left; what fills the window goes in any case."""
    return edit.kind == "cap" or stays_cached(situation, removed)


def _whole_before(situation: Situation) -> Callable[[str], list[Earlier]]:
    """Finds the results that stand whole in the body and may hold what a text says."""
    messages, keys, end = situation.messages, situation.keys, situation.seen
    edited = frozenset([(edit.at, edit.part) for edit in edits_of(situation.plan.edits, Replace)])
    within = range(first_open(situation), end)
    situation.passages.catch_up(messages, keys, end)
    return lambda text: situation.passages.alike(text, messages, keys, within, edited)


def _is_only_cut(standing: Standing) -> bool:
    """Errors, and what pictures stand beside, stay as they are, unless they would fill the window."""
    return bool(standing.result.media or standing.result.is_error)


def _cut(standing: Standing, situation: Situation, policy: ArrivePolicy) -> Replace | None:
    """The cut of such a result; its media and its mark stay."""
    usable, text = situation.usable, standing.result.text
    if not policy.cap_share or not usable or standing.tokens <= (most := int(policy.cap_share * usable)):
        return None
    spoken = situation.count(text)
    media = max(0, standing.tokens - spoken)
    room = max(most - media, int(most * _BESIDE_MEDIA))
    capped = cap(text, spoken, room, situation.count, is_error=standing.result.is_error)
    if capped is text:
        return None
    return _replace(standing, situation, "cap", capped, media + situation.count(capped))


def _edit(standing: Standing, earlier: list[Earlier], situation: Situation, policy: ArrivePolicy) -> Replace | None:
    text = standing.result.text
    kind: ResultEdit = "ansi"
    repeat: Repeat | None = None
    if policy.repeats and (repeat := repeats(text, earlier)):
        text, kind = repeat.text, "repeat"
    if policy.ansi:
        text = ansi(text)
    if policy.collapse and not repeat and not (offers_editing(situation.tools) and standing.reads):
        collapsed = collapse(text)
        if collapsed is not text:
            text, kind = collapsed, "collapse"
    tokens = standing.tokens if text is standing.result.text else situation.count(text)
    if policy.cap_share and situation.usable:
        capped = cap(text, tokens, int(policy.cap_share * situation.usable), situation.count)
        if capped is not text:
            text, kind, tokens = capped, "cap", situation.count(capped)
    return None if text is standing.result.text else _replace(standing, situation, kind, text, tokens, repeat)


def _replace(
    standing: Standing, situation: Situation, kind: ResultEdit, text: str, tokens: int, repeat: Repeat | None = None
) -> Replace:
    return Replace(
        at=standing.key,
        part=standing.part,
        kind=kind,
        text=text,
        reason=_REASONS[kind],
        tool=standing.tool,
        decided=len(situation.messages),
        tokens_before=standing.tokens,
        tokens_after=tokens,
        of=repeat.of if repeat else b"",
        of_part=repeat.of_part if repeat else 0,
    )


_REASONS: dict[ResultEdit, str] = {
    "repeat": "stands in an earlier result",
    "ansi": "terminal control codes",
    "collapse": "routine output",
    "cap": "fills too much of the window",
}
