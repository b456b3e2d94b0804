"""What `store.transcripts` keeps, and that replay reads it."""

import argparse
import asyncio
import gzip
import json
import stat
import time

import pytest

from proxy.errors import SettingsError
from proxy.server.playback import add_flags, run
from proxy.server.transcripts import Transcripts
from proxy.settings.values import Store
from tests.builders import said, user
from tests.server.house import MODEL, a_house, a_provider

pytestmark = pytest.mark.anyio

HISTORY = [user("hello"), said("You said: hello"), user("again")]


def kept(folder):
    """Every kept transcript by its session, read."""
    return {
        path.name.split(".")[0]: json.loads(gzip.decompress(path.read_bytes())) for path in folder.glob("*.json.gz")
    }


async def until(true):
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.01)


async def test_each_conversation_is_a_file_with_its_newest_request(tmp_path):
    folder = tmp_path / "made" / "of it"
    async with a_house(a_provider(), store=Store(url="memory://", transcripts=str(folder))) as house:
        answers = [await house.chat(HISTORY[:1]), await house.chat(HISTORY), await house.messages([user("other")])]
        await until(lambda: len(kept(folder)) == 2)
        session, other = (answer.headers["x-context-session"] for answer in answers[1:])
        await until(lambda: kept(folder)[session]["request"] == json.loads(answers[1].request.content))

    assert kept(folder)[session]["model"] == MODEL
    assert kept(folder)[other]["request"] == json.loads(answers[2].request.content)
    assert stat.S_IMODE((folder / f"{session}.json.gz").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(list(folder.iterdir())) == 2


async def test_a_slow_write_does_not_replace_a_later_one(tmp_path, monkeypatch):
    compress = gzip.compress

    def slow(text, level):
        if b"earlier" in text:
            time.sleep(0.2)
        return compress(text, level)

    monkeypatch.setattr(gzip, "compress", slow)
    transcripts = Transcripts(str(tmp_path))
    await asyncio.gather(*[transcripts.keep("s", MODEL, body) for body in (b'"earlier"', b'"later"')])

    assert kept(tmp_path)["s"]["request"] == "later"


async def test_replay_reads_the_folder(tmp_path, capsys):
    async with a_house(a_provider(), store=Store(url="memory://", transcripts=str(tmp_path)), mode="off") as house:
        await house.chat(HISTORY)
        await house.messages([*HISTORY, said("You said: again"), user("more")], system="be brief")
        body = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
        await house.http.post(
            "/v1beta/models/gemini-2.5-pro:generateContent", json=body, headers={"x-goog-api-key": "k"}
        )
        await house.http.post("/v1/responses", json={"model": MODEL, "input": HISTORY}, headers={"authorization": "k"})
        await until(lambda: len(kept(tmp_path)) == 4)
    capsys.readouterr()
    parser = argparse.ArgumentParser()
    add_flags(parser)

    assert run(parser.parse_args([str(tmp_path), "--profile", "gentle", "--json"])) == 0

    rows = json.loads(capsys.readouterr().out)
    assert sorted((row["model"], row["calls"]) for row in rows) == [
        ("gemini-2.5-pro", 1),
        (MODEL, 2),
        (MODEL, 2),
        (MODEL, 3),
    ]
    assert {row["name"] for row in rows} == set(kept(tmp_path))


async def test_what_does_not_hold_a_conversation_is_not_kept(tmp_path):
    provider = a_provider()
    async with a_house(provider, store=Store(url="memory://", transcripts=str(tmp_path))) as house:
        provider.refuse_next(400, {"error": {"message": "no"}})
        await house.chat([user("refused")])
        later = {"model": MODEL, "input": "go on", "previous_response_id": "resp_1"}
        await house.http.post("/v1/responses", json=later, headers={"authorization": "k"})
        count = {"model": MODEL, "messages": [user("count me")]}
        await house.http.post("/v1/messages/count_tokens", json=count, headers={"x-api-key": "k1"})
        last = await house.chat([user("kept")])
        await until(lambda: kept(tmp_path))

    assert set(kept(tmp_path)) == {last.headers["x-context-session"]}


async def test_without_a_folder_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with a_house(a_provider(), store=Store(url="memory://")) as house:
        await house.chat(HISTORY)

    assert list(tmp_path.iterdir()) == []


async def test_a_folder_that_goes_away_costs_no_call(tmp_path):
    folder = tmp_path / "gone"
    async with a_house(a_provider(), store=Store(url="memory://", transcripts=str(folder))) as house:
        folder.rmdir()
        answer = await house.chat(HISTORY)
        page = house.handler.shared.watch.metrics.page
        await until(lambda: b'pruning_proxy_failed_open_total{stage="transcript"} 1.0' in page())
        turns = await house.turns()

    assert answer.status_code == 200
    assert [turn.outcome for turn in turns] == ["ok"]


async def test_a_newer_request_takes_the_place_of_the_older_and_nothing_else_is_left(tmp_path):
    transcripts = Transcripts(str(tmp_path))
    await asyncio.gather(*(transcripts.keep("s", "m", b'{"messages":[]}') for _ in range(8)))
    await transcripts.keep("s", "m", b'{"messages":[1]}')

    assert kept(tmp_path) == {"s": {"session": "s", "model": "m", "request": {"messages": [1]}}}
    assert [path.name for path in tmp_path.iterdir()] == ["s.json.gz"]


async def test_a_folder_that_cannot_be_made_is_said_at_the_start(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(
        SettingsError, match=r"^store\.transcripts: cannot make the folder .*file/inner': Not a directory$"
    ):
        Transcripts(str(tmp_path / "file" / "inner"))


async def test_the_home_folder_may_be_written_short(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    Transcripts("~/kept")

    assert (tmp_path / "kept").is_dir()
