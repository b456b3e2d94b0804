"""The laws that every dialect keeps. A dialect joins with a row in tests/dialects/builders.py."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.conversation.edit import EMPTY_PLAN, Insert, Plan, Replace, StripReasoning, Summarise
from proxy.conversation.fingerprint import prefix_keys, reply_print, seed_key
from proxy.conversation.model import Reasoning, Text, ToolCall, ToolResult
from proxy.conversation.pairing import pairs
from proxy.conversation.recall import Recall
from proxy.dialects import DIALECTS
from proxy.dialects.lens import apply_plan
from proxy.wire.body import loads
from tests.dialects.builders import BUILDERS, Answered, Called, Round
from tests.dialects.recordings import FIXTURES, cut, observe

settings.register_profile("laws", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("laws")

every_dialect = pytest.mark.parametrize("builder", BUILDERS.values(), ids=BUILDERS)

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
words = st.text('ab \n"\\é😀\u2028', min_size=1, max_size=40).filter(str.strip)
calls = st.builds(
    Called, text=texts, as_parts=st.booleans(), is_error=st.booleans(), tool=st.sampled_from(["read", "sh"])
)
rounds = st.lists(
    st.builds(
        Round,
        asked=words,
        calls=st.lists(calls, max_size=3).map(tuple),
        said=words,
        thought=st.one_of(st.just(""), words),
        unknown=st.sampled_from([{}, {"future": {"b": [1.0, None], "a": "x"}}]),
    ),
    min_size=1,
    max_size=4,
)
# The ways in which clients write the same JSON.
styles = st.sampled_from(
    [
        {"separators": (",", ":"), "ensure_ascii": False},
        {"ensure_ascii": True},
        {"indent": 1, "ensure_ascii": False},
        {"indent": "\t"},
    ]
)
answers = st.builds(
    Answered,
    text=words,
    tools=st.lists(st.sampled_from(["read", "write"]), max_size=3).map(tuple),
    input_tokens=st.integers(100, 10**6),
    cached=st.integers(0, 100),
    output_tokens=st.integers(1, 10**5),
)


def written(builder, history, style, **more):
    """A request's bytes."""
    return json.dumps({**builder.request(history), **more}, **style).encode()


def viewed(builder, body, recall=None):
    view = builder.dialect.view(builder.path, {}, body, recall or Recall())
    assert view is not None
    keys = prefix_keys(seed_key(builder.dialect.name, "me"), view.conversation.messages)
    return view, keys


def cleared(view, keys, chosen, text="[cleared]"):
    """A plan that clears these of the conversation's results, by number."""
    found = pairs(view.conversation.messages)
    picked = [found[number % len(found)] for number in sorted({n % len(found) for n in chosen})] if found else []
    edits = tuple(
        Replace(
            at=keys[pair.message],
            part=pair.part,
            kind="clear",
            text=f"{text} {number}",
            reason="old",
            tool=pair.tool,
            tokens_before=9,
            tokens_after=2,
        )
        for number, pair in enumerate(picked)
    )
    return Plan(edits), picked


def applied(builder, view, keys, plan):
    return apply_plan(builder.dialect, view, keys, plan).body


def elements(builder, body):
    """The raw history elements of a body."""
    view, _ = viewed(builder, body)
    return [body[slice(*span)] for span in view.spans]


def test_every_dialect_is_held_to_these_laws():
    assert {dialect.name for _, dialect in DIALECTS} == set(BUILDERS)


@every_dialect
@given(told=rounds, style=styles)
def test_without_edits_the_bytes_are_the_clients_own(builder, told, style):
    body = written(builder, builder.history(told), style)
    view, keys = viewed(builder, body)

    assert apply_plan(builder.dialect, view, keys, EMPTY_PLAN).body is body


@every_dialect
@given(told=rounds, style=styles, chosen=st.lists(st.integers(0, 99), min_size=1, max_size=4))
def test_untouched_messages_keep_their_bytes_and_their_order(builder, told, style, chosen):
    body = written(builder, builder.history(told), style)
    view, keys = viewed(builder, body)
    plan, picked = cleared(view, keys, chosen)
    after = applied(builder, view, keys, plan)
    before, now = elements(builder, body), elements(builder, after)
    touched = {pair.message for pair in picked}

    assert len(now) == len(before)
    assert [raw for at, raw in enumerate(now) if at not in touched] == [
        raw for at, raw in enumerate(before) if at not in touched
    ]
    start, end = view.spans[0][0], len(body) - view.spans[-1][1]
    assert after[:start] == body[:start]
    assert after[len(after) - end :] == body[len(body) - end :]


@every_dialect
@given(told=rounds, style=styles, chosen=st.lists(st.integers(0, 99), min_size=1, max_size=4))
def test_a_call_keeps_its_result_and_only_the_results_text_changes(builder, told, style, chosen):
    body = written(builder, builder.history(told), style)
    view, keys = viewed(builder, body)
    plan, picked = cleared(view, keys, chosen)
    now, _ = viewed(builder, applied(builder, view, keys, plan))
    new_texts = {(pair.message, pair.part): f"[cleared] {number}" for number, pair in enumerate(picked)}

    assert [pair.call for pair in pairs(now.conversation.messages)] == [
        pair.call for pair in pairs(view.conversation.messages)
    ]
    for at, (old, new) in enumerate(zip(view.conversation.messages, now.conversation.messages, strict=True)):
        assert new.role == old.role
        for place, (one, other) in enumerate(zip(old.parts, new.parts, strict=True)):
            if (at, place) in new_texts:
                assert isinstance(one, ToolResult)
                assert isinstance(other, ToolResult)
                assert other.text == new_texts[at, place]
                assert (other.call_id, other.name, other.is_error) == (one.call_id, one.name, one.is_error)
            else:
                assert other == one


@every_dialect
@given(told=rounds, style=styles, text=texts)
def test_writing_twice_is_writing_once(builder, told, style, text):
    for raw in elements(builder, written(builder, builder.history(told), style)):
        view, _ = viewed(builder, written(builder, [loads(raw)], style))
        if not view.conversation.messages:
            continue
        places = {
            place: text
            for place, part in enumerate(view.conversation.messages[0].parts)
            if isinstance(part, ToolResult)
        }
        if places:
            once = builder.dialect.replace_results(raw, places)

            assert builder.dialect.replace_results(once, places) == once


@every_dialect
@given(told=rounds, style=styles, chosen=st.lists(st.integers(0, 99), min_size=1, max_size=4))
def test_the_same_plan_gives_the_same_bytes_and_the_next_turn_begins_with_them(builder, told, style, chosen):
    """On every replica and on every turn: what was sent once is the prefix of all that follows."""
    compact = {"separators": (",", ":"), "ensure_ascii": False}
    history = builder.history(told)
    body = written(builder, history, compact)
    shared = Recall()
    view, keys = viewed(builder, body, shared)
    plan, _ = cleared(view, keys, chosen)
    sent = applied(builder, view, keys, plan)
    longer = written(
        builder, history + builder.history([Round(asked="and now?", calls=(Called(text="new"),))]), compact
    )
    next_view, next_keys = viewed(builder, longer, shared)

    assert applied(builder, *viewed(builder, bytes(bytearray(body))), plan) == sent
    assert applied(builder, view, keys, plan) == applied(builder, view, keys, plan) == sent
    assert next_keys[: len(keys)] == keys
    assert elements(builder, applied(builder, next_view, next_keys, plan))[: len(keys)] == elements(builder, sent)


@every_dialect
@given(told=rounds, style=styles)
def test_a_message_without_its_reasoning_is_still_a_message(builder, told, style):
    body = written(builder, builder.history(told), style)
    view, keys = viewed(builder, body)
    plan = Plan(tuple(StripReasoning(at=key, tokens_before=1) for key in keys))
    after = applied(builder, view, keys, plan)
    now, now_keys = viewed(builder, after)
    kept_before = [p for m in view.conversation.messages for p in m.parts if not isinstance(p, Reasoning)]
    parts = [part for message in now.conversation.messages for part in message.parts]

    assert [part for part in parts if not isinstance(part, Reasoning)] == kept_before
    for message in now.conversation.messages:
        thoughts = [part for part in message.parts if isinstance(part, Reasoning)]
        rest = [
            part
            for part in message.parts
            if not isinstance(part, Reasoning | Text) or getattr(part, "text", "").strip()
        ]
        assert not thoughts or rest == thoughts
    again = Plan(tuple(StripReasoning(at=key, tokens_before=1) for key in now_keys))
    assert applied(builder, now, now_keys, again) == after


@every_dialect
@given(told=rounds, style=styles, chosen=st.lists(st.integers(0, 99), min_size=1, max_size=4))
def test_keys_that_nobody_knows_survive(builder, told, style, chosen):
    body = written(builder, builder.history(told), style, future_option={"z": 1, "a": [None]})
    view, keys = viewed(builder, body)
    plan, _ = cleared(view, keys, chosen)
    before, after = json.loads(body), json.loads(applied(builder, view, keys, plan))

    assert after["future_option"] == {"z": 1, "a": [None]}
    assert list(after) == list(before)
    assert shape(after) == shape(before)


def shape(value):
    """All keys in their order, wherever they stand; the number of elements of every list."""
    if isinstance(value, dict):
        return [(key, shape(item)) for key, item in value.items()]
    return [shape(item) for item in value] if isinstance(value, list) else None


@every_dialect
@given(told=rounds, style=styles, ends=st.tuples(st.integers(0, 99), st.integers(0, 99)))
def test_a_summary_takes_the_place_of_exactly_its_range(builder, told, style, ends):
    body = written(builder, builder.history(told), style)
    view, keys = viewed(builder, body)
    first, last = sorted(end % len(keys) for end in ends)
    edit = Summarise(
        first=keys[first],
        last=keys[last],
        text="what was",
        reason="full",
        tokens_before=9,
        tokens_after=3,
        by_model=True,
    )
    insert = Insert(after=keys[-1], text="also this", tokens_after=2)
    plan, _ = cleared(view, keys, range(99))
    after = applied(builder, view, keys, Plan((*plan.edits, edit, insert)))
    now, _ = viewed(builder, after)
    summary = now.conversation.messages[first]

    assert summary.role == "user"
    assert summary.parts == (Text(text="what was"),)
    added = 1 if last < len(keys) - 1 else 0
    assert len(now.conversation.messages) == len(keys) - (last - first) + added
    assert elements(builder, after)[:first] == elements(builder, applied(builder, view, keys, plan))[:first]
    if added:
        assert now.conversation.messages[-1].parts == (Text(text="also this"),)


@every_dialect
@given(answer=answers)
def test_usage_and_print_of_a_whole_answer_are_those_of_its_stream(builder, answer):
    whole = observe(builder.dialect, [builder.whole(answer)], stream=False, keep_text=True)
    streamed = observe(builder.dialect, [builder.stream(answer)], stream=True, keep_text=True)

    assert whole.outcome == streamed.outcome == "ok"
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (answer.input_tokens, answer.output_tokens)
    assert whole.usage == streamed.usage
    assert (whole.text, whole.tool_calls, whole.finish) == (streamed.text, streamed.tool_calls, streamed.finish)
    assert whole.text == answer.text
    assert [reply.fingerprint for reply in whole.replies] == [reply.fingerprint for reply in streamed.replies]


@every_dialect
@given(answer=answers, places=st.lists(st.integers(0, 10**6), max_size=30))
def test_any_cut_of_the_bytes_reads_the_same(builder, answer, places):
    body = builder.stream(answer)

    assert observe(builder.dialect, cut(body, places), stream=True) == observe(builder.dialect, [body], stream=True)


@every_dialect
@given(answer=answers, keep=st.floats(0, 0.9))
def test_a_stream_that_breaks_off_is_never_ok(builder, answer, keep):
    body = builder.stream(answer)
    seen = observe(builder.dialect, [body[: int(len(body) * keep)]], stream=True, complete=False)

    assert seen.outcome == "truncated"


@every_dialect
@given(said=words)
def test_an_answer_is_recognised_when_it_comes_back(builder, said):
    seen = observe(builder.dialect, [builder.stream(Answered(text=said))], stream=True)
    view, _ = viewed(builder, written(builder, builder.history([Round(asked="hello", said=said)]), {}))
    answer = [message for message in view.conversation.messages if message.role == "assistant"]

    assert reply_print(answer) == seen.replies[0].fingerprint


ODD = {
    "lone surrogates": b'"\\ud83d and \\udc00"',
    "NaN": b"[NaN, Infinity, -Infinity]",
    "huge numbers": b"[1e999, 123456789012345678901234567890, -0, 1.0]",
    "duplicate keys": b'{"a":1,"a":2}',
    "deep arrays": b"[" * 3000 + b"]" * 3000,
    "deep objects": b'{"a":' * 3000 + b"1" + b"}" * 3000,
    "nothing": b"null",
    "a number": b"7",
    "an empty list": b"[]",
    "a list of odd things": b'[null, 1, "x", [], {}, true]',
}


@every_dialect
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_odd_json_is_read_or_left_alone_but_never_breaks(builder, odd):
    """In place of every value of a plain request, one after the other."""
    told = [Round(asked="go", calls=(Called(text="x" * 50), Called(text="y", as_parts=True)), thought="hm")]
    plain = builder.request(builder.history(told))
    for place in places_of(plain):
        body = json.dumps(swapped(plain, place, "@odd@")).encode().replace(b'"@odd@"', odd)
        view = builder.dialect.view(builder.path, {}, body, Recall())
        if view is None:
            continue
        keys = prefix_keys(seed_key(builder.dialect.name, "me"), view.conversation.messages)

        assert apply_plan(builder.dialect, view, keys, EMPTY_PLAN).body is body
        rewrite_what_may_be(builder, view)


def rewrite_what_may_be(builder, view):
    """Every result that may be edited can be; what else goes wrong must be a ValueError, which fails open."""
    for span, message in zip(view.spans, view.conversation.messages, strict=True):
        raw = view.body[slice(*span)]
        places = {at: "new" for at, part in enumerate(message.parts) if isinstance(part, ToolResult) and not part.fixed}
        try:
            again = builder.dialect.replace_results(raw, places) if places else raw
            builder.dialect.strip_reasoning(again)
        except ValueError:
            continue


def places_of(value, path=()):
    """Paths of all values inside."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places_of(item, (*path, key))


def swapped(value, path, new):
    """The value with another one at this path."""
    if not path:
        return new
    if isinstance(value, dict):
        return {key: swapped(item, path[1:], new) if key == path[0] else item for key, item in value.items()}
    return [swapped(item, path[1:], new) if at == path[0] else item for at, item in enumerate(value)]


@every_dialect
@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        # Gateways say so behind a 200, each in its own words.
        ({"code": 10007, "message": "busy", "sid": "x"}, "error"),
        ({"success": False, "errors": [{"code": 1000}], "result": None}, "error"),
        ({"error_code": 336003, "error_msg": "busy"}, "error"),
        ({"object": "error", "message": "busy", "code": 400}, "error"),
        # No answer of this format, and no error either.
        ({"code": 200, "message": "ok", "data": {"text": "hi"}}, "truncated"),
        ({}, "truncated"),
        ([], "truncated"),
        ("text", "truncated"),
    ],
)
def test_what_is_no_answer_is_none_whatever_the_status(builder, said, outcome):
    assert observe(builder.dialect, [json.dumps(said).encode()], stream=False).outcome == outcome


@every_dialect
def test_the_models_name_is_text_that_log_and_store_can_hold(builder):
    plain = builder.request(builder.history([Round(asked="go")]))
    body = json.dumps({**plain, "model": "a\ud800"}).encode()
    view = builder.dialect.view(builder.path, {}, body, Recall())

    assert view is not None
    assert view.conversation.model.encode()


@every_dialect
def test_a_tools_name_is_text_that_log_and_store_can_hold(builder):
    told = [Round(asked="go", calls=(Called(text="x" * 50, tool="a\ud800"),))]
    body = json.dumps(builder.request(builder.history(told))).encode()
    view = builder.dialect.view(builder.path, {}, body, Recall())

    assert view is not None
    calls = [part for message in view.conversation.messages for part in message.parts if isinstance(part, ToolCall)]
    assert [call.name for call in calls] == ["a?"]


def test_a_rule_about_broken_results_is_kept_by_a_lone_surrogate():
    """The escape stays an escape where the message is rewritten around it."""
    for builder in BUILDERS.values():
        told = [Round(asked="go", calls=(Called(text="old"),), unknown={"note": "@odd@"})]
        body = written(builder, builder.history(told), {}).replace(b'"@odd@"', b'"\\ud83d"')
        view, keys = viewed(builder, body)
        plan, _ = cleared(view, keys, [0])
        after = applied(builder, view, keys, plan)

        assert after.count(b"\\ud83d") == body.count(b"\\ud83d") > 0
        assert b"[cleared] 0" in after


@every_dialect
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("stream", [True, False])
def test_odd_answers_never_break_a_reader(builder, odd, stream):
    answer = Answered(tools=("read",), cached=5)
    if not stream:
        plain = json.loads(builder.whole(answer))
        bodies = [json.dumps(swapped(plain, place, "@odd@")).encode() for place in places_of(plain)]
        found = [observe(builder.dialect, [body.replace(b'"@odd@"', odd)], stream=False) for body in bodies]
    else:
        events = builder.stream(answer).split(b"\n\n")
        found = []
        for number, event in enumerate(events):
            head, mark, data = event.partition(b"data: ")
            if not mark or data == b"[DONE]":
                continue
            for place in places_of(json.loads(data)):
                new = json.dumps(swapped(json.loads(data), place, "@odd@")).encode().replace(b'"@odd@"', odd)
                changed = [*events[:number], head + mark + new, *events[number + 1 :]]
                found.append(observe(builder.dialect, [b"\n\n".join(changed)], stream=True))

    assert all(seen.outcome in ("ok", "error", "truncated", "blocked") for seen in found)
    assert all((seen.usage.input_tokens or 0) >= 0 and (seen.usage.output_tokens or 0) >= 0 for seen in found)


@every_dialect
@given(noise=st.one_of(st.binary(max_size=200), st.text(max_size=100).map(str.encode)))
def test_noise_has_no_view_and_breaks_no_reader(builder, noise):
    assert builder.dialect.view(builder.path, {}, noise, Recall()) is None
    for stream in (True, False):
        assert observe(builder.dialect, [noise, noise], stream=stream).usage.input_tokens is None


@every_dialect
@given(at=st.integers(0, 10**6), new=st.binary(max_size=3))
def test_a_recorded_answer_with_a_broken_byte_breaks_no_reader(builder, at, new):
    body = next((FIXTURES / builder.dialect.name).glob(f"{builder.recording}.response.*")).read_bytes()
    at %= len(body)
    seen = observe(builder.dialect, [body[:at] + new + body[at + 1 :]], stream=True)

    assert seen.outcome in ("ok", "error", "truncated")


@every_dialect
@pytest.mark.parametrize(
    ("status", "kind"), [(400, "invalid_request_error"), (502, "upstream_error"), (504, "upstream_error")]
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_of_ours_is_read_as_an_error_in_the_clients_own_format(builder, status, kind, stream):
    """Also where the headers promise a stream, as some servers do with their errors."""
    body = builder.dialect.error_body(status, kind, 'the provider "x" could not be reached')
    seen = observe(builder.dialect, [body[:9], body[9:]], stream=stream)

    assert seen.outcome == "error"
    assert json.loads(seen.error_text)["message"] == 'the provider "x" could not be reached'
    assert seen.error_type


@every_dialect
def test_a_generating_path_does_not_count(builder):
    assert builder.dialect.is_count(builder.path) is False


@every_dialect
def test_the_dialect_is_found_under_any_prefix(builder):
    patterns = [pattern for pattern, dialect in DIALECTS if dialect is builder.dialect]

    for prefix in ("", "/up/openrouter", "/up/x/anthropic", "/api"):
        assert any(pattern.search(prefix + builder.path) for pattern in patterns)
    assert not any(pattern.search(builder.path + "/more") for pattern in patterns)
