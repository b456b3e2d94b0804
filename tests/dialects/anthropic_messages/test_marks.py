import json
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects.anthropic_messages.marks import mark_cache, moved_mark
from proxy.wire.body import dumps

EPHEMERAL = {"type": "ephemeral"}
BEARERS = ("text", "image", "document", "tool_use", "tool_result")

words = st.sampled_from(["", " ", "a", "cache", 'say "cache_control"', "é\n\\", "\ud800"])
texts = st.builds(lambda text: {"type": "text", "text": text}, words)
blocks = texts | st.sampled_from(
    [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "image", "source": {"type": "url", "url": "u"}},
        {"type": "document", "source": {"type": "text", "data": "d"}},
        {"type": "tool_use", "id": "t", "name": "n", "input": {"cache_control": {"type": "mine"}}},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "r"}]},
        {"type": "tool_result", "tool_use_id": "t"},
        {"type": "server_tool_use", "id": "s", "name": "n", "input": {}},
        {},
    ]
)
contents = words | st.lists(blocks, max_size=4) | st.none()
messages = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": contents}), max_size=6
)
tools = st.lists(
    st.sampled_from(
        [
            {"name": "a", "input_schema": {"type": "object", "properties": {"cache_control": {}}}},
            {"type": "web_search_20250305", "name": "web_search"},
            {"name": "b", "defer_loading": True, "input_schema": {}},
        ]
    ),
    max_size=3,
)
bodies = st.fixed_dictionaries(
    {"model": st.just("m"), "messages": messages},
    optional={"tools": tools, "system": contents, "stream": st.booleans()},
)


def without_marks(value, *, also_marked):
    """The JSON as it was: marks gone, and the strings that became one block strings again (where `also_marked` has some)."""
    if isinstance(value, list):
        if len(value) == 1 and isinstance(also_marked, str) and value[0].get("cache_control") == EPHEMERAL:
            return value[0]["text"]
        return [without_marks(item, also_marked=old) for item, old in zip(value, also_marked, strict=True)]
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if key != "cache_control" or key in also_marked}
        return {key: without_marks(item, also_marked=also_marked[key]) for key, item in kept.items()}
    return value


def places(body):
    """Where marks stand: ("tools", 1), ("system", 0), ("messages", 3, 0)."""
    found = [("tools", at) for at, tool in enumerate(body.get("tools") or ()) if "cache_control" in tool]
    system = body.get("system")
    if isinstance(system, list):
        found += [("system", at) for at, block in enumerate(system) if "cache_control" in block]
    for number, message in enumerate(body["messages"]):
        if isinstance(message["content"], list):
            found += [
                ("messages", number, at) for at, block in enumerate(message["content"]) if "cache_control" in block
            ]
    return found


def marked(**fields):
    return json.loads(mark_cache(dumps({"messages": [], **fields})))


def user(content="go"):
    return {"role": "user", "content": content}


def said(content="ok"):
    return {"role": "assistant", "content": content}


@given(bodies, st.booleans())
def test_without_its_marks_the_body_is_what_it_was(body, spaced):
    raw = json.dumps(body, indent=2).encode() if spaced else dumps(body)
    new = json.loads(mark_cache(raw))

    assert without_marks(deepcopy(new), also_marked=body) == body
    assert len(places(new)) <= 4
    for place in places(new):
        block = new[place[0]][place[1]]
        if place[0] == "messages":
            assert block["role"] == "user"
            block = block["content"][place[2]]
        if place[0] != "tools":
            assert block["type"] in BEARERS
            assert block["type"] != "text" or block["text"].strip()
        assert block["cache_control"] == EPHEMERAL


@given(bodies)
def test_a_body_with_marks_is_not_marked_again(body):
    once = mark_cache(dumps(body))

    assert mark_cache(once) == once


@given(bodies, st.sampled_from(["top", "tool", "system", "message", "result"]))
def test_a_client_that_sets_marks_keeps_its_own_bytes(body, where):
    mark = {"cache_control": EPHEMERAL}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "r", **mark}]}
    more = {
        "top": mark,
        "tool": {"tools": [{"name": "own", **mark}, *body.get("tools", ())]},
        "system": {"system": [{"type": "text", "text": "s", **mark}]},
        "message": {"messages": [user([{"type": "text", "text": "t", **mark}]), *body["messages"]]},
        "result": {"messages": [user([result]), *body["messages"]]},
    }
    raw = dumps({**body, **more[where]})

    assert mark_cache(raw) is raw


def test_other_bytes_stay_where_they_are():
    raw = b'{ "system" : "be\\u0020brief",\n "x": 1.0e0, "messages": [ {"content":"go", "role":"user"} ] }'

    assert mark_cache(raw) == (
        b'{ "system" : [{"type":"text","text":"be\\u0020brief","cache_control":{"type":"ephemeral"}}],\n "x": 1.0e0,'
        b' "messages": [ {"content":[{"type":"text","text":"go","cache_control":{"type":"ephemeral"}}], "role":"user"} ] }'
    )


def test_the_marks_stand_behind_tools_system_and_the_last_two_user_messages():
    body = marked(
        tools=[{"name": "a"}, {"name": "b"}, {"name": "late", "defer_loading": True}],
        system="be brief",
        messages=[user(), said(), user(), said(), user([{"type": "text", "text": "x"}, {"type": "text", "text": ""}])],
    )

    assert places(body) == [("tools", 1), ("system", 0), ("messages", 2, 0), ("messages", 4, 0)]


def test_each_turn_marks_where_the_turn_before_had_its_newest_mark():
    history = [user()]
    newest = None
    for number in range(6):
        found = places(marked(messages=history))
        assert newest is None or newest in found
        newest = found[-1]
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "r"}
        history += [said([{"type": "tool_use", "id": f"t{number}", "name": "n", "input": {}}]), user([result] * 30)]


def test_a_null_is_no_mark():
    raw = dumps({"messages": [user([{"type": "text", "text": "x", "cache_control": None}])], "cache_control": None})

    assert json.loads(mark_cache(raw))["messages"][0]["content"][0]["cache_control"] == EPHEMERAL


@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b"{", b'{"a":1,"a":2}', b'{"messages":7,"tools":{},"system":null}', b'{"messages":["x"]}'],
)
def test_what_cannot_be_marked_stays(raw):
    assert mark_cache(raw) is raw


HOUR = {"type": "ephemeral", "ttl": "1h"}
LOST = dumps([{"role": "user", "content": [{"type": "text", "text": "old end", "cache_control": HOUR}]}])


def a_cut_request(**more):
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    asked = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}]}
    return {
        "messages": [*said, asked, {"role": "assistant", "content": "c"}, {"role": "user", "content": "now"}],
        **more,
    }


def test_a_mark_that_was_cut_off_stands_in_front_of_the_new_end_as_it_was():
    body = a_cut_request(system=[{"type": "text", "text": "s", "cache_control": EPHEMERAL}])
    moved = json.loads(moved_mark(dumps(body), LOST))

    assert moved["messages"][2]["content"][0].pop("cache_control") == HOUR
    assert moved == body


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        (a_cut_request(), b'[{"role":"user","content":"\\"cache_control\\": {}"}]'),
        (a_cut_request(system=[{"type": "text", "text": "s", "cache_control": EPHEMERAL}] * 4), LOST),
        ({"messages": [{"role": "user", "content": "now"}]}, LOST),
        ({"messages": {}}, LOST),
    ],
)
def test_no_mark_is_made_where_none_was_or_none_may_stand(body, lost):
    assert moved_mark(dumps(body), lost) == dumps(body)


@pytest.mark.parametrize("broken", [b"", b"[", b'{"messages":[{"role":"user"', b'{"messages":[],"messages":[]}'])
def test_what_cannot_be_read_gets_no_moved_mark(broken):
    assert moved_mark(broken, LOST) == broken
