import json

from proxy.dialects import dialect_for
from proxy.dialects.kept import MOST_BYTES, is_sealed, restorations
from proxy.dialects.openai_responses.reasoning import kept_items, restore, restored_parts

DIALECT = dialect_for("/v1/responses")


def thought(number=1, **more):
    return {"id": f"rs_{number}", "type": "reasoning", "summary": [], "encrypted_content": f"gA{number}", **more}


def called(number=1, **more):
    return {"type": "function_call", "call_id": f"c{number}", "name": "look", "arguments": "{}", **more}


def slots(kept):
    return [(position, json.loads(payload)) for position, payload in restorations(kept)]


def test_each_item_is_kept_for_what_stands_behind_it():
    kept = kept_items([thought(1), called(1), thought(2), thought(3), called(2)])

    assert slots(kept) == [(0, [thought(1)]), (1, [thought(2), thought(3)])]
    assert is_sealed(kept)


def test_content_and_status_are_the_answers_own_business():
    assert slots(kept_items([thought(content=[], status="completed"), called()])) == [(0, [thought()])]


def test_items_that_only_the_provider_holds_are_not_kept():
    assert kept_items([{"id": "rs_1", "type": "reasoning", "summary": []}, called()]) == ""
    assert kept_items([thought(encrypted_content="x" * MOST_BYTES), thought(2, encrypted_content="y")]) == ""


def test_an_item_with_an_id_gets_its_reasoning_with_an_id():
    item = json.dumps(called(id="fc_1")).encode()

    restored = restore(item, json.dumps([thought()]))

    assert json.loads(b"[" + restored + b"]") == [thought(), called(id="fc_1")]
    assert restored.endswith(item)


def test_an_item_without_an_id_gets_none():
    restored = json.loads(b"[" + restore(json.dumps(called()).encode(), json.dumps([thought()])) + b"]")

    assert [item.get("id") for item in restored] == [None, None]


def test_whole_and_streamed_answers_keep_the_same():
    output = [thought(), called(id="fc_1")]
    whole = json.dumps({"object": "response", "status": "completed", "output": output}).encode()
    for final in (output, []):
        events = [
            *({"type": "response.output_item.done", "item": item} for item in output),
            {"type": "response.completed", "response": {"status": "completed", "output": final}},
        ]
        stream = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
        found = []
        for streams, raw in ((False, whole), (True, stream)):
            reader = DIALECT.reader(stream=streams, keep_reasoning=True)
            reader.feed(raw)
            found.append(reader.finish(complete=True).replies[0].reasoning)

        assert found[0] == found[1] != ""


def test_what_comes_back_is_counted_as_reasoning():
    shown = thought(summary=[{"type": "summary_text", "text": "why"}])

    (part,) = restored_parts(json.dumps([shown]))

    assert (part.text, part.signed) == ("why", True)
