import asyncio
import gzip
import json
import random
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.conversation.model import NO_TOOLS, Conversation, Message, Text, ToolCall, ToolResult, Tools
from proxy.server import tokenizers
from proxy.server.tokenizers import (
    Counter,
    Scales,
    counter,
    is_known_tokenizer,
    tokenizer_for,
    warm,
)
from proxy.tokens.estimate import Memo, Scale, rule_of_thumb
from proxy.tokens.pieces import PIECE_CHARS, pieces
from tests.bench.worst_texts import WORST
from tests.builders import weigh_request

TRAJECTORIES = Path(__file__).parents[1] / "data" / "trajectories"
ENCODINGS = ["o200k_base", "cl100k_base"]


@pytest.fixture(scope="module")
def sessions():
    """The messages of some recorded sessions, each as one JSON text."""
    names = ["pi-large", "cc-wallet", "cx-soul", "tau-retail-99-99", "magentic-10", "deerflow-7cfa5f8f"]
    found = [json.loads(gzip.decompress((TRAJECTORIES / f"{name}.json.gz").read_bytes())) for name in names]
    return [json.dumps(session["messages"], ensure_ascii=False, indent=1) for session in found]


@pytest.fixture(scope="module")
def references():
    return {name: tokenizers.reference(name) for name in ENCODINGS}


class Panic(BaseException):
    """What pyo3 raises for a panic in Rust: no Exception."""


def refuse(text):
    raise Panic(text)


def a_scale(count):
    return Scale(encoding="o200k_base", count=count, dialect="openai_chat", model="m", memo=Memo())


def a_conversation(texts, tools=NO_TOOLS):
    messages = tuple(
        Message(role="user", parts=(Text(text=text),), digest=number.to_bytes(4, "big"))
        for number, text in enumerate(texts)
    )
    return Conversation(
        dialect="openai_chat", model="m", system=(), tools=tools, messages=messages, stream=False, max_output=None
    )


# Which encoding


@pytest.mark.parametrize(
    ("model", "wish", "name"),
    [
        ("gpt-4o", "auto", "o200k_base"),
        ("gpt-4.1-mini", "auto", "o200k_base"),
        ("gpt-5", "auto", "o200k_base"),
        ("gpt-4", "auto", "cl100k_base"),
        ("gpt-4-turbo-2024-04-09", "auto", "cl100k_base"),
        ("openai/gpt-3.5-turbo", "auto", "cl100k_base"),
        ("ft:gpt-4-0613:acme", "auto", "cl100k_base"),
        ("claude-sonnet-4-5", "auto", "o200k_base"),
        ("", "auto", "o200k_base"),
        ("gpt-4", "o200k_base", "o200k_base"),
        ("gpt-4o", "characters", "characters"),
        ("gpt-4o", "nonsense", "o200k_base"),
    ],
)
def test_the_wish_names_the_encoding_else_the_model_does(model, wish, name):
    assert tokenizer_for(model, wish) == name


@pytest.mark.parametrize(
    ("model", "known"),
    [("gpt-5", True), ("openai/o3-mini", True), ("ft:gpt-4o:acme", True), ("claude-opus-5", False), ("", False)],
)
def test_only_openais_models_are_counted_with_their_own_encoding(model, known):
    assert is_known_tokenizer(model) is known


def test_there_is_one_counter_an_encoding():
    assert counter("o200k_base") is counter("o200k_base")


# Counts


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_binding_counts_real_sessions_exactly_as_tiktoken_does(name, sessions, references):
    binding = tokenizers.binding(name)

    assert [binding(text) for text in sessions] == [references[name](text) for text in sessions]


@pytest.mark.parametrize("name", ENCODINGS)
@settings(deadline=None, max_examples=200)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_the_binding_counts_any_text_as_tiktoken_does(name, references, text):
    assert counter(name)(text) == references[name](text)


@pytest.mark.parametrize("name", ENCODINGS)
def test_special_tokens_are_text(name):
    assert counter(name)("<|endoftext|>") > 3


def test_lone_surrogates_are_counted():
    assert counter("o200k_base")("\ud800 word") == counter("o200k_base")("? word")


def test_the_rule_of_thumb_can_be_wished_for():
    assert counter("characters")("x" * 100) == 25


def test_no_counting_needs_the_network_or_a_cache_folder(tmp_path):
    script = (
        "import socket\n"
        "from proxy.server import tokenizers\n"
        "socket.getaddrinfo = socket.create_connection = None\n"
        "print(tokenizers.reference('cl100k_base')('hello world'), tokenizers.binding('o200k_base')('hello world'))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2]), "PATH": ""},
    )

    assert run.stdout.split() == ["2", "2"]
    assert list(tmp_path.iterdir()) == []


def test_a_tokenizer_is_loaded_at_the_first_text_and_not_before():
    script = (
        "import sys\n"
        "from proxy.server.tokenizers import counter\n"
        "count = counter('o200k_base')\n"
        "print([name for name in sys.modules if 'tiktoken' in name or 'bpe_openai' in name])"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": ""},
    )

    assert run.stdout.strip() == "[]"


# Failures


def test_a_panic_of_the_tokenizer_is_counted_by_the_rule_of_thumb():
    count = Counter("o200k_base", refuse)

    assert count("x" * 40) == 10
    assert count.failures == 1


def test_an_interrupt_is_not_swallowed():
    def interrupt(text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Counter("o200k_base", interrupt)("x")


def test_without_the_binding_tiktoken_counts(monkeypatch, references):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(tokenizers, "binding", missing)

    assert tokenizers.load("cl100k_base")("hello world, hello") == references["cl100k_base"]("hello world, hello")


def test_without_any_engine_the_rule_of_thumb_counts(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(tokenizers, "binding", missing)
    monkeypatch.setattr(tokenizers, "reference", missing)

    assert tokenizers.load("o200k_base") is rule_of_thumb


def test_without_the_package_the_binding_says_so(monkeypatch):
    monkeypatch.setattr(tokenizers.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(ImportError, match="not installed"):
        tokenizers.binding("o200k_base")


# Long texts


@pytest.mark.parametrize("name", ENCODINGS)
def test_counting_in_pieces_is_within_one_in_ten_thousand(name, sessions, references):
    for text in sessions:
        assert counter(name)(text) == pytest.approx(references[name](text), rel=1e-4)


@pytest.mark.parametrize("name", ENCODINGS)
def test_cuts_at_line_ends_and_between_words_are_exact(name, references):
    text = "\n".join(f"def name_{n}(self, value): return {n} + len(value) / 2  # a comment" for n in range(2000))
    prose = "the quick brown fox jumps over the lazy dog and " * 2000

    for whole in (text, prose):
        assert sum(map(references[name], pieces(whole, 500))) == references[name](whole)


# A tracer of lines (coverage) is on the code's back too: then only the order of magnitude can be told.
LIMIT_S = 1.0 if sys.gettrace() is None else 3.0
TRIES = 10
"""A virtual machine counts as ours what its host takes in between: one of them goes undisturbed, mostly the first."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("kind", WORST)
def test_the_worst_five_megabytes_take_less_than_a_second(name, kind):
    text = WORST[kind](random.Random(1))
    count = counter(name)
    count("warm")

    def took_s():
        start = time.process_time()
        assert count(text) > 0
        return time.process_time() - start

    assert any(took_s() < LIMIT_S for _ in range(TRIES))
    assert count.failures == 0


# Off the loop's back


def longest_pause(work):
    """CPU seconds for which the event loop did not come round while `work` ran, and what `work` gave."""

    async def measure():
        pauses = []
        running = True

        async def beat():
            last = time.thread_time()
            while running:
                await asyncio.sleep(0)
                now = time.thread_time()
                pauses.append(now - last)
                last = now

        pulse = asyncio.ensure_future(beat())
        await asyncio.sleep(0)
        result = await work()
        running = False
        await pulse
        return max(pauses), result

    return asyncio.run(measure())


def test_warming_gives_the_loop_turns_between_pieces():
    turns = []
    count = Counter("o200k_base", lambda text: turns.append(len(text)) or 1)
    other = []

    async def work():
        async def beat():
            while len(other) < 1000:
                other.append(len(turns))
                await asyncio.sleep(0)

        pulse = asyncio.ensure_future(beat())
        await warm(a_scale(count), a_conversation(["x" * (PIECE_CHARS * 10)] + ["y" * 1000] * 500))
        await pulse

    asyncio.run(work())

    # Between any two looks of the other task at most one piece, or as much in short texts, was counted.
    assert max(later - earlier for earlier, later in pairwise(other)) <= PIECE_CHARS // 1000 + 2


def test_each_encoding_dialect_and_model_has_one_scale():
    scales = Scales()
    scale = scales.get("o200k_base", "openai_chat", "m")
    other = scales.get("o200k_base", "openai_chat", "n")

    assert scale is scales.get("o200k_base", "openai_chat", "m")
    assert (scale.encoding, scale.weigh_text("hello world"), scale.name == other.name) == ("o200k_base", 2, False)


def test_warmed_messages_cost_nothing_any_more():
    calls = []
    scale = a_scale(Counter("o200k_base", lambda text: calls.append(text) or 1))
    conversation = a_conversation(
        ["short", "long " * PIECE_CHARS], Tools(digest=b"t", text="{} " * PIECE_CHARS, names=("a",))
    )

    asyncio.run(warm(scale, conversation))
    counted = len(calls)
    weigh_request(scale, conversation)
    asyncio.run(warm(scale, conversation))

    assert len(calls) == counted > 0


def test_every_kind_of_part_is_warmed():
    scale = a_scale(counter("o200k_base"))
    parts = (
        ToolCall(call_id="c", name="write", arguments="x" * (PIECE_CHARS + 1)),
        ToolResult(call_id="c", text="y" * (PIECE_CHARS + 1)),
    )
    conversation = a_conversation([])
    conversation = Conversation(
        **{
            **{name: getattr(conversation, name) for name in conversation.__slots__},
            "messages": (Message(role="assistant", parts=parts, digest=b"d"),),
        }
    )

    asyncio.run(warm(scale, conversation))

    assert scale.is_known(conversation.messages[0])


def test_warming_works_with_any_counter():
    scale = a_scale(len)

    asyncio.run(warm(scale, a_conversation(["x" * (PIECE_CHARS * 2)])))

    assert scale.weigh_messages(a_conversation(["x" * (PIECE_CHARS * 2)]).messages) == PIECE_CHARS * 2 + 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["chinese", "base64", "random letters"])
def test_five_bad_megabytes_never_hold_the_loop_long(kind):
    count = counter("o200k_base")
    count("warm")
    conversation = a_conversation([WORST[kind](random.Random(1))])

    pauses = (longest_pause(lambda: warm(a_scale(count), conversation))[0] for _ in range(TRIES))

    # Measured: 2 to 4 ms; the rest is room for a slow machine.
    assert any(pause < 0.010 for pause in pauses)


# Memory


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_a_loaded_tokenizer_holds_less_than_45_megabytes():
    script = (
        "from pathlib import Path\n"
        "from proxy.server.tokenizers import counter\n"
        "def held():\n"
        "    lines = Path('/proc/self/status').read_text().splitlines()\n"
        "    return next(int(line.split()[1]) for line in lines if line.startswith('VmRSS'))\n"
        "before = held()\n"
        "tokens = counter('o200k_base')('hello world')\n"
        "print(tokens, (held() - before) // 1024)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": ""},
    )
    tokens, megabytes = map(int, run.stdout.split())

    assert tokens == 2
    assert megabytes < 45


def test_memory_is_given_back_only_where_the_system_tells_how(monkeypatch):
    def refuse(path, *args):
        raise OSError(path)

    monkeypatch.setattr(Path, "read_text", refuse)

    assert tokenizers.binding("o200k_base")("hello world") == 2
