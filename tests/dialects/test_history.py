"""A body is read the same whether or not an earlier body of its line was read before."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from proxy.conversation import lines
from proxy.conversation.model import Message
from proxy.conversation.recall import Recall
from proxy.dialects import dialect_for
from proxy.dialects.history import beginnings, leading_system, read_history
from proxy.exchange.receive import receive

PATHS = {
    "messages": ["/v1/chat/completions", "/v1/messages"],
    "input": ["/v1/responses"],
    "contents": ["/v1beta/models/gemini-2.5-pro:generateContent"],
}
CASES = [(path, field) for field, paths in PATHS.items() for path in paths]


def turn(field, number, mark):
    role = ("user", "assistant")[number % 2]
    text = f"message {number} " + "word " * 150
    if field == "contents":
        return {"role": role.replace("assistant", "model"), "parts": [{"text": text}]}
    content = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}] if mark else text
    return {"role": role, "content": content}


def a_body(field, turns, *, before=True, behind=True, separators=(",", ":"), mark=-1):
    history = [turn(field, number, number == mark) for number in range(turns)]
    if field == "messages":
        history.insert(0, {"role": "system", "content": "be brief"})
    body = {"model": "m"} if before else {}
    body[field] = history
    if behind:
        body |= {"temperature": 1, "tools": []}
    return json.dumps(body, separators=separators).encode()


def test_system_messages_lead_as_far_as_nothing_else_was_said():
    system, user = (Message(role=role, parts=(), digest=b"") for role in ("system", "user"))

    assert [leading_system(some) for some in ([], [system], [user], [system, system, user, system])] == [0, 1, 0, 2]


def read(path, body, recall):
    received = receive(dialect_for(path), path, {}, body, caller="c", recall=recall)
    return None if received is None else (received.view, received.keys, received.candidates)


def told(found):
    """What was read, without what is only noted of it."""
    view, *rest = found
    return {**asdict(view), "notes": None}, *rest


def anew(view, *earlier):
    """The number of messages that were parsed for it."""
    known = {id(message) for one in earlier for message in one.conversation.messages}
    return sum(id(message) not in known for message in view.conversation.messages)


@pytest.mark.parametrize(("path", "field"), CASES)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_a_known_line_is_read_as_a_new_one(path, field, data):
    recall = Recall()
    for _ in range(data.draw(st.integers(2, 5))):
        body = a_body(
            field,
            data.draw(st.integers(0, 24)),
            before=data.draw(st.booleans()),
            behind=data.draw(st.booleans()),
            separators=data.draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")])),
            mark=data.draw(st.integers(-1, 24)),
        )
        assert told(read(path, body, recall)) == told(read(path, body, Recall()))


@pytest.mark.parametrize(("path", "field"), CASES)
def test_a_growing_line_parses_only_its_new_messages(path, field):
    recall = Recall()
    first, _, _ = read(path, a_body(field, 20), recall)
    known = len(recall)
    view, _, _ = read(path, a_body(field, 22), recall)

    assert anew(view, first) == 2
    assert view.notes.shared == len(first.conversation.messages)
    # The line holds them.
    assert len(recall) == known


@pytest.mark.parametrize(("path", "field"), CASES)
def test_what_a_line_has_no_room_for_is_remembered_message_by_message(path, field):
    bodies = [a_body(field, turns) for turns in (20, 26, 28)]
    # The first body just has room.
    recall = Recall(room_bytes=6 * len(bodies[0]))
    views = [read(path, body, recall)[0] for body in bodies]

    assert [anew(view, *views[:number]) for number, view in enumerate(views)][1:] == [6, 2]
    assert [view.notes.shared for view in views] == [0, *[len(views[0].conversation.messages)] * 2]


@pytest.mark.parametrize(("path", "field"), CASES)
def test_lines_that_take_turns_behind_where_they_part_remember_what_each_has_said(path, field):
    recall, views = Recall(), []
    for turns in (40, 42, 44, 42, 44, 42, 44):
        body = a_body(field, turns).replace(b"message 40 ", b"branch %d " % turns)
        views.append(read(path, body, recall)[0])

    assert [anew(view, *views[:number]) for number, view in enumerate(views)][1:] == [2, 4, 1, 0, 0, 0]


@pytest.mark.parametrize(("path", "field"), CASES)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_a_long_body_is_read_in_steps_as_at_once(path, field, data):
    dialect, recall = dialect_for(path), Recall()
    body = a_body(
        field,
        data.draw(st.integers(0, 60)),
        before=data.draw(st.booleans()),
        behind=data.draw(st.booleans()),
        separators=data.draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")])),
        mark=data.draw(st.integers(-1, 24)),
    )
    view, _, _ = read(path, body[: body.index(b"[") + 1] + b"]}", recall)
    # A step has to be more than what is never kept.
    for beginning in beginnings(
        dialect.name, dialect.history_field, body, recall, data.draw(st.integers(8_000, 20_000))
    ):
        earlier, (view, _, _) = view, read(path, beginning, recall)
        assert anew(view, earlier) <= 25_000 // 750
    found = read(path, body, recall)

    assert told(found) == told(read(path, body, Recall()))
    assert anew(found[0], view) <= 2 * 20_000 // 750


def test_only_what_is_long_and_new_and_can_be_kept_is_read_in_steps():
    body = a_body("messages", 60)

    def steps(recall, step_bytes=8_000, read_before=b"", of=body):
        if read_before:
            read("/v1/chat/completions", read_before, recall)
        return [len(one) for one in beginnings("openai_chat", "messages", of, recall, step_bytes)]

    new = steps(Recall())
    assert len(new) == 5
    assert all(8_000 <= after - before < 9_000 for before, after in itertools.pairwise([0, *new]))
    assert len(body) - new[-1] < 8_000
    assert steps(Recall(), len(body) // 2 + 1) == []
    assert steps(Recall(), read_before=a_body("messages", 50)) == []
    known = a_body("messages", 20, behind=False)
    assert 8_000 <= steps(Recall(), read_before=known)[0] - len(known) < 9_000
    assert steps(Recall(room_bytes=len(body))) == []
    assert steps(Recall(), of=body[:-1]) == []
    assert steps(Recall(), of=body.replace(b'"messages"', b'"message5"')) == []


def test_a_body_of_two_steps_is_compared_with_its_line_once(monkeypatch):
    recall, compared = Recall(), []
    read("/v1/chat/completions", a_body("messages", 50), recall)
    body = a_body("messages", 60)
    shared = lines._shared
    monkeypatch.setattr(lines, "_shared", lambda one, line: compared.append(one) or shared(one, line))

    assert list(beginnings("openai_chat", "messages", body, recall, len(body) // 2 + 1)) == []
    assert read("/v1/chat/completions", body, recall) is not None
    assert compared == [body]


def test_what_stands_beside_a_growing_history_is_read_once():
    recall, made = Recall(), []

    def head_of(body, fields, recall):
        made.append(len(fields))
        return made[-1]

    for turns, behind in ((20, b""), (22, b""), (21, b""), (22, b',"x":[{"a":1}]'), (22, b',"x":[{"a":1}]'), (23, b"")):
        body = a_body("messages", turns)
        body = body.replace(b'],"temperature"', b"]" + behind + b',"temperature"')
        known = read_history("kind", "messages", body, recall, a_message, head_of)
        anew = read_history("kind", "messages", body, Recall(), a_message, lambda _, fields, __: len(fields))

        assert {**asdict(known), "notes": None} == {**asdict(anew), "notes": None}

    assert made == [4, 5, 4]


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), st.booleans()), min_size=1, max_size=12))
def test_the_last_message_of_a_user_is_found_wherever_a_line_goes_on(steps):
    recall, history = Recall(), []
    for number, (role, goes_back) in enumerate(steps):
        history = [*(history[: len(history) // 2] if goes_back else history), (role, number)]
        body = json.dumps(
            {"messages": [{"role": role, "n": number, "text": "word " * 900} for role, number in history]}
        )
        found = read_history("kind", "messages", body.encode(), recall, a_role, lambda *_: None)

        asked = [str(number).encode() for role, number in history if role == "user"]
        assert (found.asked() and found.asked().digest) == (asked[-1] if asked else None)


def a_role(raw):
    value = json.loads(raw)
    return Message(role=value["role"], parts=(), digest=b"%d" % value["n"])


def a_message(raw):
    return Message(role="user", parts=(), digest=raw)


@pytest.mark.parametrize(("path", "field"), CASES)
@pytest.mark.parametrize("tail", [b"", b"]", b"]}}", b"]} x", b',{"a":]}', b"],", b'],"model":"again"}', b',5"]}'])
def test_a_broken_end_behind_a_known_beginning_is_as_broken_as_ever(path, field, tail):
    recall = Recall()
    whole = a_body(field, 20, behind=False)
    read(path, whole, recall)
    broken = whole[:-2] + tail

    assert read(path, broken, recall) == read(path, broken, Recall())


@pytest.mark.parametrize(("path", "field"), CASES)
def test_a_history_given_twice_has_no_single_meaning(path, field):
    recall = Recall()
    whole = a_body(field, 20, behind=False)
    read(path, whole, recall)
    twice = whole[:-1] + b',"%b":[]}' % field.encode()

    assert read(path, twice, recall) is None
    assert read(path, twice, Recall()) is None


@pytest.mark.parametrize(("path", "field"), CASES)
def test_of_bodies_that_part_at_their_end_only_the_last_is_held(path, field):
    recall = Recall()
    for turns in (40, 41, 40):
        body = a_body(field, turns)
        read(path, body.replace(b"message 39 ", b"message %d " % turns), recall)

    assert len(recall.lines) == 1
