"""Items of the Responses API."""

import pytest

from proxy.demo.provider.asked import Refused
from proxy.demo.provider.responses_items import assistant_turns, check, text_of, unit_of


def call(call_id="c1", **extra):
    return {"type": "function_call", "call_id": call_id, "name": "look", "arguments": "{}", **extra}


def output(call_id="c1"):
    return {"type": "function_call_output", "call_id": call_id, "output": "found"}


def test_one_turn_may_be_several_items():
    said = {"type": "message", "role": "assistant", "content": "hm"}
    history = [{"role": "user", "content": "go"}, said, call(), output(), said]

    assert assistant_turns(history) == 2


def test_returned_reasoning_counts_what_its_seal_says():
    assert unit_of({"type": "reasoning", "encrypted_content": "c2ln.42"}, 0).overhead == 42
    assert unit_of({"type": "reasoning", "encrypted_content": "foreign"}, 0).overhead == 0


def test_images_have_a_price_of_their_own():
    item = {"role": "user", "content": [{"type": "input_text", "text": "see"}, {"type": "input_image"}]}

    assert unit_of(item, 700).overhead == 4 + 700
    assert text_of(item) == "see\n"


def test_a_call_needs_the_reasoning_it_came_with():
    history = [call(id="fc_1"), output()]
    with pytest.raises(Refused) as refused:
        check(history, {"fc_1": "rs_1"})

    assert "its required 'reasoning' item: 'rs_1'" in refused.value.body["error"]["message"]
    check([{"type": "reasoning", "id": "rs_1"}, *history], {"fc_1": "rs_1"})


def test_a_compaction_trigger_is_the_last_item():
    trigger = {"type": "compaction_trigger"}
    check([call(), output(), trigger], {})
    with pytest.raises(Refused):
        check([trigger, call(), output()], {})


def test_what_goes_between_a_program_and_the_client_counts_nothing():
    by = {"caller": {"type": "program", "caller_id": "p"}}
    program = {"type": "program", "call_id": "p", "code": "f()", "fingerprint": "x"}
    done = {"type": "program_output", "call_id": "p", "result": "three", "status": "completed"}
    history = [{"role": "user", "content": "go"}, program, call(**by), {**output(), **by}, done]
    check(history, {})

    assert [unit_of(item, 765).overhead for item in history] == [4, 7, 0, 0, 7]
    assert [unit_of(item, 765).texts for item in history] == [("go",), ("program", "f()"), (), (), ("three",)]
    assert assistant_turns(history) == 2
