import json

import pytest

from proxy.dialects import dialect_for
from proxy.dialects.gemini.reasoning import restore
from proxy.dialects.kept import is_sealed, restorations

DIALECT = dialect_for("/v1beta/models/m:generateContent")


def a_call(name, **more):
    return {"functionCall": {"name": name, "args": {}}, **more}


def kept_of(*parts):
    reader = DIALECT.reader(stream=False, keep_reasoning=True)
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP"}
    reader.feed(json.dumps({"candidates": [candidate]}).encode())
    return reader.finish(complete=True).replies[0].reasoning


def test_signatures_are_kept_by_call_and_thoughts_are_not():
    kept = kept_of({"text": "hm", "thought": True}, a_call("a", thoughtSignature="c2ln"), a_call("b"))

    ((position, payload),) = restorations(kept)

    assert (position, json.loads(payload)) == (0, ["c2ln", None])
    assert is_sealed(kept)


def test_an_answer_without_signatures_keeps_nothing():
    assert kept_of({"text": "hm", "thought": True}, a_call("a")) == ""


@pytest.mark.parametrize("spelling", ["functionCall", "function_call"])
def test_each_call_gets_its_own_signature_and_all_else_keeps_its_bytes(spelling):
    content = (
        b'{"role":"model", "parts":[ {"text":"caf\\u00e9"}, {"%s":{"name":"a","args":{ }}}, {"%s":{"name":"b"}} ]}'
        % ((spelling.encode(),) * 2)
    )

    restored = restore(content, '["c2ln",null]')

    assert restored == content.replace(b'"args":{ }}}', b'"args":{ }},"thoughtSignature":"c2ln"}')
    assert restore(restored, '["c2ln",null]') is restored


def test_a_signature_that_came_back_stays():
    content = json.dumps({"role": "model", "parts": [a_call("a", thoughtSignature="bXk=")]}).encode()

    assert restore(content, '["c2ln"]') is content


def test_a_single_part_without_its_list_is_restored_too():
    content = json.dumps({"role": "model", "parts": a_call("a")}).encode()

    assert json.loads(restore(content, '["c2ln"]'))["parts"]["thoughtSignature"] == "c2ln"


def test_signatures_have_no_length():
    assert DIALECT.restored_parts('["c2ln"]') == ()
