"""What only some models want of chat's reasoning, in their own words."""

import pytest

from proxy.demo.provider import Refused, Rules
from proxy.demo.provider.chat_rules import checked


def calling(**extra):
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [{**call, **extra.pop("call", {})}], **extra}


def a_body(answer, *more):
    asked = {"role": "user", "content": "look"}
    return {"model": "m", "messages": [asked, answer, {"role": "tool", "tool_call_id": "c1", "content": "x"}, *more]}


SIGNED = {"extra_content": {"google": {"thought_signature": "c2ln"}}}


@pytest.mark.parametrize(
    ("rules", "refused", "accepted", "words"),
    [
        (
            Rules(reasoning_back="deepseek"),
            calling(),
            calling(reasoning_content="why"),
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
        ),
        (
            Rules(reasoning_back="kimi"),
            calling(),
            calling(reasoning_content="why"),
            "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
        ),
        (
            Rules(reasoning_back="groq"),
            calling(reasoning_content="why"),
            calling(),
            "'reasoning_content' is unsupported",
        ),
        (Rules(signatures_back=True), calling(), calling(call=SIGNED), "missing a thought_signature"),
    ],
)
def test_each_vendor_refuses_in_its_own_words(rules, refused, accepted, words):
    with pytest.raises(Refused) as said:
        checked(a_body(refused), rules)

    assert words in said.value.body["error"]["message"]
    assert len(checked(a_body(accepted), rules)) == 3


def test_signatures_of_earlier_turns_are_not_asked_for():
    body = a_body(calling(), {"role": "assistant", "content": "done"}, {"role": "user", "content": "thanks"})

    assert len(checked(body, Rules(signatures_back=True))) == 5
