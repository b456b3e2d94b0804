"""What survives five rounds of compaction, asked by somebody else: the probes of `compaction-conformance-kit` (PyPI).

    pip install compaction-conformance-kit
    python -m tests.bench.conformance [--seeds 8] [--record] [--json]

Each round goes through `prepare`, `need_of`, `summarise_edit` and the rewriting of the body as a request does; only the
model is scripted: it writes an extract of exactly what it is given. As in life the client keeps its whole history, and
between two rounds the conversation goes on, so that each round takes the earlier summary in. What is probed is the
text of the body that goes out. `--record`: no model answers, the record without a model stands.
"""

import argparse
import json
import sys
from collections import Counter

from compaction_kit.canaries import seeded_canaries
from compaction_kit.compacted import CompactedContext
from compaction_kit.corpus import build_random_session
from compaction_kit.generated import build_generated_session
from compaction_kit.runner import run_conformance
from compaction_kit.semantic_corpus import build_semantic_heldout_session, build_semantic_session
from compaction_kit.session import build_seeded_session

from proxy.compaction.policy import CompactPolicy
from proxy.compaction.prompt import INSTRUCTION
from proxy.conversation.edit import EMPTY_PLAN, Plan
from proxy.conversation.recall import Recall
from proxy.demo.provider.extractive import extracted
from proxy.dialects import dialect_for
from proxy.exchange.compact import made_without_model, summarise_edit, warm_body
from proxy.exchange.policy import Policy
from proxy.exchange.prepare import prepare
from proxy.exchange.receive import Memory, receive
from proxy.server.tokenizers import counter
from proxy.tokens.estimate import Memo, Scale
from proxy.wire.body import dumps, loads

PATH = "/v1/chat/completions"
POLICY = Policy(
    window=32_768,
    compact=CompactPolicy(trigger="share", share=0.05, background_share=1.0, tail_share=0.02),
)
BETWEEN = 8
"""Exchanges between two rounds."""


class ThroughTheProxy:
    """The kit's protocol: `compact(turns) -> CompactedContext`."""

    name = "pruning-proxy"

    def __init__(self, *, record: bool) -> None:
        self._record = record
        self._messages: list[dict] = []
        self._plan: Plan = EMPTY_PLAN
        self._recall = Recall()
        encoding = "o200k_base"
        self._scale = Scale(
            encoding=encoding, count=counter(encoding), dialect="openai_chat", model="gpt-4o", memo=Memo()
        )
        self.compactions = 0
        self.shares: list[float] = []

    def compact(self, turns, round_num=1, budget_chars=None) -> CompactedContext:
        if round_num == 1:
            self._messages = [{"role": turn.role, "content": turn.text} for turn in turns]
        else:
            self._messages += [message for number in range(BETWEEN) for message in _filler(round_num, number)]
        dialect = dialect_for(PATH)
        body = dumps({"model": "gpt-4o", "messages": self._messages})
        received = receive(dialect, PATH, {}, body, caller="kit", recall=self._recall)
        memory = Memory(plan=self._plan)
        ready = prepare(received, memory, POLICY, self._scale, now=0.0)
        need = ready.need
        assert need is not None, f"round {round_num}: nothing to compact"
        count = self._scale.weigh_text
        if self._record:
            text = made_without_model(need, received, count)
        else:
            asked = loads(warm_body(need, received, ready.plan))["messages"]
            said = [one["content"].partition(INSTRUCTION)[0] for one in asked[1:]]
            text = extracted(said, min(4 * need.summary_tokens, sum(map(len, said)) // 3))
        edit, verdict = summarise_edit(need, received, text, finished=True, by_model=not self._record, count=count)
        assert edit is not None, f"round {round_num}: {verdict.reason}"
        before = ready.context.total
        ready = prepare(received, memory, POLICY, self._scale, now=0.0, summary=edit)
        self._plan = ready.plan
        self.compactions += 1
        self.shares.append(ready.context.total / before)
        out = "\n".join(f"[{one['role']}] {one['content']}" for one in loads(ready.body)["messages"])
        return CompactedContext(text=out, compactor_name=self.name, round_num=round_num)


_THINGS = (
    "importer",
    "queue",
    "parser",
    "cache",
    "router",
    "scheduler",
    "index",
    "export",
    "login",
    "search",
    "mailer",
)
_WAYS = ("under load", "after a restart", "with an empty table", "on a slow disk", "in the nightly run")


def _filler(round_num: int, number: int) -> list[dict]:
    """One exchange of ordinary work; no two are alike."""
    place = round_num * BETWEEN + number
    first, second = _THINGS[place % len(_THINGS)], _THINGS[(place * 5 + round_num) % len(_THINGS)]
    work = f"Look at how the {first} works together with the {second} {_WAYS[place % len(_WAYS)]}, then tell me."
    answer = f"The {first} reads a batch, hands it to the {second}, and waits for the queue to drain. " * 6
    return [{"role": "user", "content": work}, {"role": "assistant", "content": answer}]


def sessions(seeds: int):
    """Name of the corpus, session and its canaries."""
    yield "seeded", build_seeded_session(), seeded_canaries()
    for seed in range(1, seeds + 1):
        yield "random", *build_random_session(seed)
        yield "generated", *build_generated_session(seed)
        for name, build in (("semantic", build_semantic_session), ("held-out", build_semantic_heldout_session)):
            session, canaries, _ = build(seed)
            yield name, session, canaries


def survival(seeds: int, *, record: bool, rounds: int = 5) -> dict[str, list[float]]:
    """Corpus and type → share of canaries that survived after each round."""
    held: dict[str, list[Counter]] = {}
    for corpus, session, canaries in sessions(seeds):
        run = run_conformance(session, ThroughTheProxy(record=record), rounds=rounds, canaries=canaries)
        types = {canary.id: canary.type.value for canary in canaries}
        for number, result in enumerate(run.rounds):
            for canary, survived in result.survived.items():
                for name in (corpus, types[canary], "all"):
                    rows = held.setdefault(name, [Counter() for _ in range(rounds)])
                    rows[number].update({"held": survived, "all": 1})
    return {name: [row["held"] / row["all"] for row in rows] for name, rows in held.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--record", action="store_true", help="no model: the record stands")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = survival(options.seeds, record=options.record)
    if options.json:
        print(json.dumps(found))
    else:
        for name, curve in found.items():
            print(f"{name:<16} " + " ".join(f"{100 * share:6.1f} %" for share in curve))
    return 0 if min(found["all"]) >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
