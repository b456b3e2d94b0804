import json
from sys import maxsize

import pytest
from msgspec.structs import replace

from proxy.conversation.edit import EMPTY_PLAN, Insert, Plan, Replace, StripReasoning, Summarise
from proxy.conversation.fingerprint import prefix_keys, seed_key
from proxy.conversation.recall import Recall
from proxy.dialects import dialect_for
from proxy.dialects.base import Splice
from proxy.dialects.lens import apply_plan, standing_edits

CHAT = dialect_for("/v1/chat/completions")


def a_request(*contents, roles="ua"):
    """User and assistant by turns, each with its text; `t` is a tool's message."""
    names = {"u": "user", "a": "assistant", "t": "tool"}
    messages = [{"role": names[roles[at % len(roles)]], "content": text} for at, text in enumerate(contents)]
    view = CHAT.view("", {}, json.dumps({"model": "m", "messages": messages}).encode(), Recall())
    return view, prefix_keys(seed_key("openai_chat", "me"), view.conversation.messages)


def summary(keys, first, last, text):
    return Summarise(
        first=keys[first], last=keys[last], text=text, reason="full", tokens_before=2, tokens_after=1, by_model=True
    )


def clear(keys, at, text="gone"):
    return Replace(
        at=keys[at], part=0, kind="clear", text=text, reason="old", tool="read", tokens_before=2, tokens_after=1
    )


def sent(request, *edits, extra=()):
    view, keys = request
    result = apply_plan(CHAT, view, keys, Plan(edits), extra)
    return [message["content"] for message in json.loads(result.body)["messages"]], result


def test_a_plan_without_a_foothold_gives_back_the_same_object():
    view, keys = a_request("a", "b")
    _, other = a_request("x", "y")

    for plan in (
        EMPTY_PLAN,
        Plan((clear(other, 1), summary(other, 0, 1, "s"), Insert(after=other[0], text="i", tokens_after=1))),
    ):
        result = apply_plan(CHAT, view, keys, plan)

        assert result.body is view.body
        assert result.standing == ()


def test_a_summary_takes_the_place_of_its_range_and_of_all_edits_inside():
    request = a_request("go", "ok", "one", "ok", "two", roles="uatat")
    keys = request[1]
    contents, result = sent(
        request,
        clear(keys, 2),
        Insert(after=keys[1], text="i", tokens_after=1),
        summary(keys, 1, 3, "what was"),
        clear(keys, 4),
    )

    assert contents == ["go", "what was", "gone"]
    assert len(result.standing) == 4


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        # A later and wider one swallows the earlier one, in whichever order they stand.
        ([(0, 1), (0, 3)], ["s1", "e", "f"]),
        ([(0, 3), (1, 2)], ["s0", "e", "f"]),
        # The same range, decided twice: the later one counts.
        ([(0, 2), (0, 2)], ["s1", "d", "e", "f"]),
        # Apart.
        ([(0, 1), (3, 4)], ["s0", "c", "s1", "f"]),
        # Half and half: the wider one; of equal ones the later.
        ([(0, 3), (3, 4)], ["s0", "e", "f"]),
        ([(0, 2), (2, 4)], ["a", "b", "s1", "f"]),
        # All of them at once.
        ([(0, 1), (0, 3), (0, 5)], ["s2"]),
        ([(1, 1)], ["a", "s0", "c", "d", "e", "f"]),
        # Back to front is no range.
        ([(3, 1)], ["a", "b", "c", "d", "e", "f"]),
    ],
)
def test_of_summaries_that_overlap_one_is_written(ranges, expected):
    request = a_request(*"abcdef")
    edits = [summary(request[1], first, last, f"s{number}") for number, (first, last) in enumerate(ranges)]

    assert sent(request, *edits)[0] == expected


def test_messages_are_put_in_behind_theirs_in_the_plans_order():
    request = a_request("a", "b")
    keys = request[1]
    edits = [
        Insert(after=keys[at], text=text, tokens_after=1) for at, text in ((1, "last"), (0, "first"), (0, "second"))
    ]

    assert sent(request, *edits)[0] == ["a", "first", "second", "b", "last"]


def test_what_is_put_in_behind_an_edited_message_stands_behind_its_new_form():
    request = a_request("go", "ok", "one", roles="uat")
    keys = request[1]

    assert sent(request, Insert(after=keys[2], text="i", tokens_after=1), clear(keys, 2))[0] == [
        "go",
        "ok",
        "gone",
        "i",
    ]


def test_the_last_word_on_a_result_counts():
    request = a_request("go", "ok", "one", roles="uat")
    keys = request[1]

    assert sent(request, clear(keys, 2, "first"), clear(keys, 2, "second"))[0][2] == "second"


def test_an_edit_of_another_branch_does_not_stand():
    _, keys = a_request("go", "ok", "one", roles="uat")
    request = a_request("GO", "ok", "one", roles="uat")
    contents, result = sent(request, clear(keys, 2))

    assert contents == ["GO", "ok", "one"]
    assert not result.standing
    assert standing_edits(request[0].notes, request[1], Plan((clear(keys, 2),))) == (maxsize + 1, ())


def test_splices_outside_the_messages_go_along():
    request = a_request("go", "ok", "one", roles="uat")
    end = len(request[0].body) - 1
    _, result = sent(request, clear(request[1], 2), extra=[Splice(start=end, end=end, text=b',"n":1')])

    assert json.loads(result.body)["n"] == 1
    assert json.loads(result.body)["messages"][2]["content"] == "gone"


def test_a_view_that_cannot_be_edited_is_left_as_it_came():
    view, keys = a_request("a", "b", roles="ut")
    result = apply_plan(CHAT, replace(view, editable=False), keys, Plan((clear(keys, 1),)))

    assert result.body is view.body
    assert not result.standing


def test_a_message_is_written_once_a_line():
    written = []

    class Counting:
        name = "counting"

        def replace_results(self, message, texts, keeping):
            written.append(texts)
            return CHAT.replace_results(message, texts, keeping)

    shared, texts = Recall(), ["go", *["word " * 400] * 9]
    for end in (6, 8, 10):
        messages = [{"role": "tool" if at % 2 == 0 else "user", "content": text} for at, text in enumerate(texts[:end])]
        view = CHAT.view("", {}, json.dumps({"model": "m", "messages": messages}).encode(), shared)
        keys = prefix_keys(seed_key("openai_chat", "me"), view.conversation.messages)
        plan = Plan(tuple(clear(keys, at, str(at)) for at in range(2, end, 2)))
        for _ in range(2):
            apply_plan(Counting(), view, keys, plan)

    assert written == [{0: "2"}, {0: "4"}, {0: "6"}, {0: "8"}]


def test_results_are_cleared_and_reasoning_stripped_in_one_message():
    body = {
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "ok", "reasoning_content": "hm"},
        ]
    }
    view = CHAT.view("", {}, json.dumps(body).encode(), Recall())
    keys = prefix_keys(seed_key("openai_chat", "me"), view.conversation.messages)
    result = apply_plan(CHAT, view, keys, Plan((StripReasoning(at=keys[1], tokens_before=1),)))

    assert json.loads(result.body)["messages"][1] == {"role": "assistant", "content": "ok"}


@pytest.mark.parametrize("branch", ["same", "other"])
def test_a_plan_that_a_line_carries_on_is_written_as_if_it_were_new(branch):
    shared = Recall()
    texts = [f"{number} " + "word " * 400 for number in range(9)]
    for end, parting, cleared in ((4, "same", (2,)), (6, "same", (2, 4)), (8, branch, (2, 4)), (9, branch, (2, 4, 6))):
        said = [text if number < 5 else text + parting for number, text in enumerate(texts[:end])]
        messages = [{"role": "tool" if at % 2 == 0 else "user", "content": text} for at, text in enumerate(said)]
        body = json.dumps({"model": "m", "messages": messages}).encode()
        view, anew = CHAT.view("", {}, body, shared), CHAT.view("", {}, body, Recall())
        keys = prefix_keys(seed_key("openai_chat", "me"), view.conversation.messages)
        lost = clear(prefix_keys(seed_key("openai_chat", "you"), view.conversation.messages), 0)
        edits = (*(clear(keys, at) for at in cleared), Insert(after=keys[3], text="i", tokens_after=1))
        for plan in (Plan(edits), Plan((summary(keys, 0, 2, "s"), *edits, lost)), Plan(edits)):
            assert apply_plan(CHAT, view, keys, plan) == apply_plan(CHAT, anew, keys, plan)


IMAGE = "data:image/png;base64,iVBORw0KGgo="
SHOWN = {
    "openai_chat": (
        "/v1/chat/completions",
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {
            "role": "tool",
            "tool_call_id": "c",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": IMAGE}},
                {"type": "text", "text": "b"},
            ],
        },
        "messages",
    ),
    "openai_responses": (
        "/v1/responses",
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "c",
            "status": "failed",
            "output": [{"type": "input_image", "image_url": IMAGE}, {"type": "input_text", "text": "a"}],
        },
        "input",
    ),
    "anthropic_messages": (
        "/v1/messages",
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c",
                    "is_error": True,
                    "content": [
                        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
                        },
                    ],
                }
            ],
        },
        "messages",
    ),
    "gemini": (
        "/v1beta/models/m:generateContent",
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "name": "f",
                        "response": {"error": {"code": 1, "text": "a"}},
                        "parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}],
                    }
                }
            ],
        },
        "contents",
    ),
}


@pytest.mark.parametrize(("path", "call", "shown", "key"), SHOWN.values(), ids=SHOWN.keys())
def test_of_a_result_that_is_only_cut_media_and_marks_stay(path, call, shown, key):
    dialect = dialect_for(path)
    body = json.dumps({"model": "m", "max_tokens": 9, key: [call, shown]}).encode()
    view = dialect.view(path, {}, body, Recall())
    keys = prefix_keys(b"seed", view.conversation.messages)

    def after(kind):
        edit = Replace(at=keys[1], part=0, kind=kind, text="cut", reason="", tool="f", tokens_before=9, tokens_after=1)
        written = apply_plan(dialect, view, keys, Plan((edit,))).body
        (part,) = dialect.view(path, {}, written, Recall()).conversation.messages[1].parts
        return part

    (before,) = view.conversation.messages[1].parts
    assert before.media
    assert after("cap") == replace(before, text="cut")
    assert after("clear") == replace(before, text="cut", media=())
