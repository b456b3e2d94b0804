"""Read a case file, build its wire bytes, and check what a run observed.

A case is one JSON file in `data`: `symptom`, `right` and `recipe` say what it is about, `policy` says abstractly what
the proxy is set to do, `steps` run in order against one running proxy. The case texts are made up and under this
project's own licence; provider refusal strings in them are wire data, and the keys are fake.
"""

# ruff: noqa: PERF401, PTH123, SIM102  (kept close to the form in which the cases were written)
import base64
import gzip
import json
import re
import zlib


def load(path):
    with open(path, encoding="utf-8") as fh:
        return json.load(fh)


# ---------------------------------------------------------------- expansion
def expand(node):
    """Replace {"$repeat": [text, n]} (and {"$join": [...]}) by the string it stands for."""
    if isinstance(node, dict):
        if set(node) == {"$repeat"}:
            text, times = node["$repeat"]
            return text * times
        if set(node) == {"$join"}:
            return "".join(expand(part) for part in node["$join"])
        return {key: expand(value) for key, value in node.items()}
    if isinstance(node, list):
        return [expand(item) for item in node]
    return node


def request_body(request):
    """The exact bytes the client sends (before any declared compression)."""
    if "body_text" in request:
        data = expand(request["body_text"]).encode("utf-8")
    elif "body_b64" in request:
        data = base64.b64decode(request["body_b64"])
    elif "body" in request:
        data = json.dumps(expand(request["body"]), ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    else:
        data = b""
    return data


def wire_body(request):
    data = request_body(request)
    how = request.get("compress")
    if how == "gzip":
        return gzip.compress(data, mtime=0)
    if how == "deflate":
        return zlib.compress(data)
    return data


def chunk_bytes(chunk):
    """Bytes of one upstream chunk, or None for a control item (sleep, abort)."""
    if isinstance(chunk, str):
        return chunk.encode("utf-8")
    if "b64" in chunk:
        return base64.b64decode(chunk["b64"])
    if "hex" in chunk:
        return bytes.fromhex(chunk["hex"])
    if "repeat" in chunk:
        text, times = chunk["repeat"]
        return (text * times).encode("utf-8")
    return None


def response_bytes(response):
    data = b"".join(b for b in map(chunk_bytes, response.get("chunks", [])) if b)
    return gzip.compress(data, mtime=0) if response.get("compress") == "gzip" else data


def model_of(path, body):
    """Model named in the body, or in a Gemini path."""
    found = re.search(r"/models/([^/:?]+):", path)
    if found:
        return found.group(1)
    try:
        return json.loads(body).get("model")
    except (ValueError, AttributeError, RecursionError):
        return None


def summary_response(path, body, text):
    """What the summary model answers, in the shape of whichever API was called."""
    try:
        stream = bool(json.loads(body).get("stream")) or "streamGenerateContent" in path
    except (ValueError, AttributeError):
        stream = False
    if "/messages" in path:
        msg = {
            "id": "ms",
            "type": "message",
            "role": "assistant",
            "model": "sum-model",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 300, "output_tokens": 20},
        }
        events = [
            ("message_start", {"message": dict(msg, content=[])}),
            ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
            ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": text}}),
            ("content_block_stop", {"index": 0}),
            ("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 20}}),
            ("message_stop", {}),
        ]
    elif "/responses" in path:
        item = {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }
        msg = {
            "id": "rs",
            "object": "response",
            "status": "completed",
            "model": "sum-model",
            "output": [item],
            "usage": {"input_tokens": 300, "output_tokens": 20, "total_tokens": 320},
        }
        events = [
            ("response.created", {"response": dict(msg, status="in_progress", output=[])}),
            ("response.output_text.delta", {"item_id": "m", "output_index": 0, "content_index": 0, "delta": text}),
            ("response.output_item.done", {"output_index": 0, "item": item}),
            ("response.completed", {"response": msg}),
        ]
    elif "enerateContent" in path:
        msg = {
            "candidates": [
                {"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [{"text": text}]}}
            ],
            "usageMetadata": {"promptTokenCount": 300, "candidatesTokenCount": 20, "totalTokenCount": 320},
        }
        events = [(None, msg)]
    else:
        msg = {
            "id": "cs",
            "object": "chat.completion",
            "created": 1,
            "model": "sum-model",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": 300, "completion_tokens": 20, "total_tokens": 320},
        }
        events = [
            (
                None,
                dict(
                    msg,
                    object="chat.completion.chunk",
                    choices=[{"index": 0, "finish_reason": "stop", "delta": {"role": "assistant", "content": text}}],
                ),
            ),
            ("[DONE]", None),
        ]
    if not stream:
        return {
            "status": 200,
            "headers": [["content-type", "application/json"]],
            "chunks": [json.dumps(msg)],
            "framing": "length",
        }
    chunks = []
    for name, obj in events:
        if obj is None:
            chunks.append("data: [DONE]\n\n")
        else:
            lead = f"event: {name}\n" if name else ""
            chunks.append(lead + "data: " + json.dumps(dict(obj, **({"type": name} if name else {}))) + "\n\n")
    return {"status": 200, "headers": [["content-type", "text/event-stream"]], "chunks": chunks}


# ---------------------------------------------------------------- SSE
def sse_events(data):
    """Decode an event stream by its definition: lines end at CR, LF or CRLF only."""
    text = data.decode("utf-8", "strict")
    if text.startswith("\ufeff"):
        text = text[1:]
    events, event, lines = [], None, []
    for line in re.split("\r\n|\n|\r", text):
        if line == "":
            if lines:
                events.append((event or "message", "\n".join(lines)))
            event, lines = None, []
        elif line.startswith(":"):
            continue
        else:
            field, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if field == "data":
                lines.append(value)
            elif field == "event":
                event = value
    return events


# ---------------------------------------------------------------- pairing
def pairing_faults(api, body):
    """Every way the history breaks the provider's call/result rules."""
    bad = []
    if api == "chat":
        msgs = body.get("messages", [])
        i = 0
        while i < len(msgs):
            m = msgs[i]
            calls = [c["id"] for c in m.get("tool_calls") or []]
            if m.get("role") == "tool":
                bad.append(f"messages.{i}: tool result with no call before it")
            if calls:
                seen, j = [], i + 1
                while j < len(msgs) and msgs[j].get("role") == "tool":
                    seen.append(msgs[j].get("tool_call_id"))
                    j += 1
                if sorted(map(str, seen)) != sorted(map(str, calls)):
                    bad.append(f"messages.{i}: calls {calls} answered by {seen}")
                i = j
                continue
            i += 1
    elif api == "anthropic":
        msgs = body.get("messages", [])

        def blocks(m):
            c = m.get("content")
            return c if isinstance(c, list) else [{"type": "text", "text": c}]

        for i, m in enumerate(msgs):
            bs = blocks(m)
            if not bs:
                bad.append(f"messages.{i}: no content blocks")
            for k, b in enumerate(bs):
                if b.get("type") == "text" and not str(b.get("text") or "").strip():
                    bad.append(f"messages.{i}.content.{k}: empty text")
            uses = [b["id"] for b in bs if b.get("type") == "tool_use"]
            res = [b.get("tool_use_id") for b in bs if b.get("type") == "tool_result"]
            nxt = blocks(msgs[i + 1]) if i + 1 < len(msgs) else []
            if uses and i + 1 < len(msgs):
                got = []
                for b in nxt:
                    if b.get("type") != "tool_result":
                        break
                    got.append(b.get("tool_use_id"))
                if sorted(map(str, got)) != sorted(map(str, uses)):
                    bad.append(f"messages.{i}: uses {uses} answered by leading {got}")
            if res:
                prev = [b.get("id") for b in blocks(msgs[i - 1]) if b.get("type") == "tool_use"] if i else []
                for r in res:
                    if r not in prev:
                        bad.append(f"messages.{i}: orphan tool_result {r}")
    elif api == "responses":
        items = body.get("input")
        items = items if isinstance(items, list) else []
        calls = [x["call_id"] for x in items if x.get("type") in ("function_call", "custom_tool_call")]
        outs = [x.get("call_id") for x in items if x.get("type") in ("function_call_output", "custom_tool_call_output")]
        if not body.get("previous_response_id"):
            for c in calls:
                if outs.count(c) != 1:
                    bad.append(f"call {c} has {outs.count(c)} outputs")
            for o in outs:
                if o not in calls:
                    bad.append(f"output {o} has no call")
    elif api == "gemini":
        turns = body.get("contents", [])
        for i, t in enumerate(turns):
            parts = t.get("parts") or []
            if not parts:
                bad.append(f"contents.{i}: no parts")
            n = sum("functionCall" in p for p in parts)
            if n and i + 1 < len(turns):
                r = sum("functionResponse" in p for p in turns[i + 1].get("parts") or [])
                if r != n:
                    bad.append(f"contents.{i}: {n} calls, {r} responses")
            r = sum("functionResponse" in p for p in parts)
            if r and (i == 0 or not any("functionCall" in p for p in turns[i - 1].get("parts") or [])):
                bad.append(f"contents.{i}: responses with no calls before")
    return bad


# ---------------------------------------------------------------- assertions
_MISSING = object()


def at(node, path):
    if path in ("", "$"):
        return node
    for step in path.split("."):
        if isinstance(node, list):
            try:
                node = node[int(step)]
            except (ValueError, IndexError):
                return _MISSING
        elif isinstance(node, dict) and step in node:
            node = node[step]
        else:
            return _MISSING
    return node


def _text(value):
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def holds(api, body, path, op, want, before=None):
    got = at(body, path)
    if op == "absent":
        return got is _MISSING
    if op == "pairs_ok":
        return pairing_faults(api, body) == []
    if got is _MISSING:
        return False
    if op == "eq":
        return got == want and type(got) is type(want)
    if op == "ne":
        return got != want
    if op == "present":
        return True
    if op == "len":
        return len(got) == want
    if op == "len_lt":
        return len(_text(got)) < want
    if op == "len_gt":
        return len(_text(got)) > want
    if op == "has":
        return want in _text(got)
    if op == "lacks":
        return want not in _text(got)
    if op == "pruned":  # replaced by something short, not empty, without the sentinel
        return 0 < len(_text(got).strip()) < 200 and want not in _text(got)
    if op == "keys":  # key order
        return list(got) == want
    if op == "count_of":  # [text, n]
        return _text(got).count(want[0]) == want[1]
    if op == "extends":  # list starts with the same path of an earlier step's request
        old = at(before[want], path)
        return got[: len(old)] == old
    if op == "same_as_step":
        return got == at(before[want], path)
    raise ValueError(f"unknown op {op}")


def header_values(headers, name):
    return [v for k, v in headers if k.lower() == name.lower()]


def check(case, step, seen, before=()):
    """Failures of one step.  `seen` keys that are missing are skipped, not failed.

    seen = {"client": {status, headers, body, ms, first_byte_ms},
            "upstream": [{method, path, headers, body, closed_ms}],
            "record": {...}, "log": str, "growth_mb": float}
    before = upstream main-request JSON of the earlier steps.
    """
    want, bad, api = step.get("expect", {}), [], step.get("api", case["api"])
    summary_model = (case.get("policy") or {}).get("compact", {}).get("summary_model")
    client, ups = seen.get("client"), seen.get("upstream")

    mains = summaries = None
    if ups is not None:
        summaries = [u for u in ups if summary_model and model_of(u["path"], u["body"]) == summary_model]
        mains = [u for u in ups if u not in summaries]
    if client is not None:
        if "client_status" in want:
            ok = want["client_status"]
            if client["status"] not in (ok if isinstance(ok, list) else [ok]):
                bad.append(f"client status {client['status']}, want {ok}")
        if (
            want.get("interim_100")
            and client.get("interim") is not None
            and not client["interim"].startswith(b"HTTP/1.1 100")
        ):
            bad.append("no 100 Continue before the body")
        if want.get("client_body") == "as_upstream":
            exp = b"".join(response_bytes(r) for r in step["upstream"][:1])
            if client["body"] != exp:
                bad.append("client body differs from upstream bytes")
        if "client_text" in want and client["body"] != want["client_text"].encode():
            bad.append("client body is not the expected text")
        text = client["body"].decode("utf-8", "replace")
        for s in want.get("client_has", []):
            if s not in text:
                bad.append(f"client body lacks {s!r}")
        for s in want.get("client_lacks", []):
            if s in text:
                bad.append(f"client body contains {s!r}")
        for pattern in want.get("client_not_match", []):
            if re.search(pattern, text):
                bad.append(f"client body matches {pattern!r}")
        if "client_last_event" in want:
            name, asserts = want["client_last_event"]
            events = sse_events(client["body"])
            if not events or (name and events[-1][0] != name):
                bad.append(f"last event {events[-1:]!r}"[:200])
            else:
                try:
                    obj = json.loads(events[-1][1])
                    bad += [f"last event {a}" for a in asserts if not holds(api, obj, *a)]
                except ValueError:
                    bad.append("last event is not JSON")
        if want.get("client_decoded") == "as_upstream":
            got = client["body"]
            if header_values(client["headers"], "content-encoding") == ["gzip"]:
                got = gzip.decompress(got)
            plain = b"".join(b for b in map(chunk_bytes, step["upstream"][0]["chunks"]) if b)
            if got != plain:
                bad.append("decoded client body differs")
        for name, most in want.get("client_header_max", {}).items():
            if len(header_values(client["headers"], name)) > most:
                bad.append(f"client header {name} repeated")
        if (
            want.get("client_one_framing")
            and header_values(client["headers"], "content-length")
            and header_values(client["headers"], "transfer-encoding")
        ):
            bad.append("both content-length and transfer-encoding")
        for path, op, val in want.get("client_json", []):
            try:
                if not holds(api, json.loads(text), path, op, val):
                    bad.append(f"client json {path} {op} {val!r}")
            except ValueError:
                bad.append("client body is not JSON")
        if "client_events" in want:
            got = [d for _, d in sse_events(client["body"])]
            if got != want["client_events"]:
                bad.append(f"client events {got!r}")
        for name, val in want.get("client_headers", {}).items():
            got = header_values(client["headers"], name)
            if val is None and got:
                bad.append(f"client header {name} present: {got}")
            elif isinstance(val, str) and got != [val]:
                bad.append(f"client header {name}: {got}, want {val!r}")
            elif isinstance(val, list) and got != val:
                bad.append(f"client header {name}: {got}, want {val}")
        for key, field in (("max_ms", "ms"), ("max_first_byte_ms", "first_byte_ms")):
            if key in want and client.get(field) is not None and client[field] > want[key]:
                bad.append(f"{field} {client[field]:.0f} > {want[key]}")
    if ups is not None:
        for key, rows in (("upstream_count", mains), ("summary_count", summaries)):
            if key in want:
                lo, hi = want[key] if isinstance(want[key], list) else [want[key]] * 2
                if not lo <= len(rows) <= hi:
                    bad.append(f"{key} {len(rows)}, want {want[key]}")
        if mains:
            last = mains[-1]
            if want.get("upstream_body") == "as_client" and last["body"] != request_body(step["request"]):
                bad.append("upstream body bytes differ from the client's")
            if want.get("upstream_decoded") == "as_client":
                got, how = last["body"], header_values(last["headers"], "content-encoding")
                try:
                    got = (
                        gzip.decompress(got) if how == ["gzip"] else zlib.decompress(got) if how == ["deflate"] else got
                    )
                except (OSError, zlib.error):
                    bad.append("upstream body does not decode as its content-encoding says")
                if got != request_body(step["request"]):
                    bad.append("decoded upstream body differs from the client's")
            if "upstream_path_if_any" in want and last["path"] != want["upstream_path_if_any"]:
                bad.append(f"upstream path {last['path']}")
            for s in want.get("upstream_raw_has", []):
                if s.encode() not in last["body"]:
                    bad.append(f"upstream raw lacks {s!r}")
            for s in want.get("upstream_raw_lacks", []):
                if s.encode() in last["body"]:
                    bad.append(f"upstream raw contains {s!r}")
            if "upstream_path" in want and last["path"] != want["upstream_path"]:
                bad.append(f"upstream path {last['path']}")
            for name, val in want.get("upstream_headers", {}).items():
                got = header_values(last["headers"], name)
                if (val is None and got) or (isinstance(val, str) and got != [val]):
                    bad.append(f"upstream header {name}: {got}, want {val!r}")
            for path, op, val in want.get("upstream_json", []):
                try:
                    if not holds(api, json.loads(last["body"]), path, op, val, before):
                        bad.append(f"upstream {path} {op} {val!r}"[:200])
                except ValueError as err:
                    bad.append(f"upstream body: {err}"[:120])
            if "upstream_closed_within_ms" in want:
                if last.get("closed_ms") is None or last["closed_ms"] > want["upstream_closed_within_ms"]:
                    bad.append(f"upstream connection not closed in time: {last.get('closed_ms')}")
        elif any(k.startswith("upstream_") and k not in ("upstream_count", "upstream_path_if_any") for k in want):
            bad.append("no main request reached the upstream")
        joined = b"".join(u["body"] for u in summaries or []).decode("utf-8", "replace")
        bad += [f"summary input lacks {s!r}" for s in want.get("summary_any", []) if s not in joined]
        for u in summaries or []:
            for path, op, val in want.get("summary_json", []):
                if not holds("chat", json.loads(u["body"]), path, op, val):
                    bad.append(f"summary request {path} {op} {val!r}"[:200])
            if "summary_max_bytes" in want and len(u["body"]) > want["summary_max_bytes"]:
                bad.append(f"summary request {len(u['body'])} bytes")
    if seen.get("record") is not None:
        for key, val in want.get("record", {}).items():
            got = seen["record"].get(key)
            if isinstance(val, list):
                if got is None or not val[0] <= got <= val[1]:
                    bad.append(f"record {key}={got!r}, want {val}")
            elif got != val:
                bad.append(f"record {key}={got!r}, want {val!r}")
    if seen.get("log") is not None:
        for s in want.get("log_lacks", []):
            if s in seen["log"]:
                bad.append(f"log contains {s!r}")
    if seen.get("growth_mb") is not None and "max_growth_mb" in want and seen["growth_mb"] > want["max_growth_mb"]:
        bad.append(f"memory grew {seen['growth_mb']} MB")
    return bad
