"""The dashboard in a real Chromium, with a recorded session played through the whole proxy."""

import json
import time
from contextlib import asynccontextmanager

import pytest

from proxy.ledger.store import Settlement
from proxy.stores import open_store
from proxy.tokens.learn import encode, learned_name
from tests.browser.accessibility import OUTLINE, SMALL_TARGETS, axe, walk
from tests.browser.chromium import BINARY, chromium
from tests.browser.replayed import house
from tests.builders import a_turn
from tests.tokens.test_treatment import taught

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(BINARY is None, reason="no chromium is installed")]

TURNS = 30
READY = "document.querySelector('main .view h1') && document.getElementById('live-text').textContent === 'Live'"


@pytest.fixture(scope="module")
async def replayed(tmp_path_factory):
    async with house(tmp_path_factory.mktemp("state")) as running:
        await running.play(range(TURNS))
        yield running


@pytest.fixture(scope="module")
async def browser():
    async with chromium() as page:
        yield page


@pytest.fixture
async def page(browser):
    await browser.size(1280)
    browser.complaints.clear()
    yield browser
    await browser.send("Network.setExtraHTTPHeaders", headers={})
    await browser.send("Page.navigate", url="about:blank")
    await browser.run("1")

    assert browser.complaints == []


@asynccontextmanager
async def left(page):
    """The page is left before its house goes down, which may take its time: it would complain of that."""
    yield
    await page.send("Page.navigate", url="about:blank")
    await page.run("1")


async def visit(page, running, fragment="#/sessions"):
    await page.open(f"{running.base}/_proxy/{fragment}")
    await page.until(READY)


async def the_session(running):
    return (await running.get("/_proxy/api/sessions"))["sessions"][-1]["session"]


async def everywhere(running):
    session = await the_session(running)
    return ["#/sessions", f"#/sessions/{session}", "#/savings", "#/accuracy", "#/health"]


def text_of(selector):
    return f"document.querySelector({json.dumps(selector)})?.innerText.replaceAll('\\u00a0', ' ')"


def key(name):
    return f"document.querySelector('[data-key={json.dumps(name)}]')"


async def focus(page, name):
    await page.until(key(name))
    await page.run(f"{key(name)}.focus()")


async def test_the_list_shows_the_session_and_how_full_its_window_is(page, replayed):
    session = await the_session(replayed)
    context = await replayed.get(f"/_proxy/api/sessions/{session}/context")
    await visit(page, replayed)

    shown = await page.run(text_of(".sessions li"))
    assert session in shown
    assert f"{TURNS} calls" in shown
    assert f"≈ {context['percent']:.1f} %" in shown
    label = await page.run("document.querySelector('.sessions .context').getAttribute('aria-label')")
    assert f"{context['total']:,} tokens of {context['window']:,}" in label
    assert await page.run("document.title") == "Sessions · pruning-proxy"


async def test_the_timeline_draws_every_turn_and_marks_the_edits(page, replayed):
    session = await the_session(replayed)
    detail = await replayed.get(f"/_proxy/api/sessions/{session}")
    edited = [turn["turn"] for turn in detail["turns"] if turn["new_edits"]]
    await visit(page, replayed, f"#/sessions/{session}")
    await page.until("document.querySelector('.timeline svg')")

    assert await page.run("document.querySelectorAll('.timeline .turn').length") == TURNS
    assert await page.run("document.querySelectorAll('.timeline svg .edited').length") == len(edited) > 0
    assert await page.run("document.querySelectorAll('.timeline svg .cached').length") >= TURNS - 2
    label = await page.run("document.querySelector('.timeline svg').getAttribute('aria-label')")
    assert f"{detail['bill']['input_tokens']:,} tokens sent" in label

    await focus(page, "turn")
    await page.press("Home")
    for _ in range(edited[-1] - 1):
        await page.press("ArrowRight")
    readout = await page.run(text_of(".readout"))
    assert f"Turn {edited[-1]} " in readout
    assert await page.run("document.querySelectorAll('.readout li').length") > 0
    assert await page.run("document.querySelector('.turn.chosen').dataset.at") == str(edited[-1] - 1)


async def test_each_chart_says_the_same_as_a_table(page, replayed):
    session = await the_session(replayed)
    await visit(page, replayed, f"#/sessions/{session}")
    await focus(page, "turns-toggle")
    await page.press("Enter")

    assert await page.run("document.querySelectorAll('#turns-table tbody tr').length") == TURNS
    assert await page.run("document.querySelector('.timeline .picture').checkVisibility()") is False

    await page.press("Enter")
    assert await page.run("document.querySelector('.timeline .picture').checkVisibility()") is True


async def test_each_edit_shows_what_stood_there_what_stands_there_now_and_why(page, replayed):
    session = await the_session(replayed)
    edits = (await replayed.get(f"/_proxy/api/sessions/{session}/edits"))["edits"]
    await visit(page, replayed, f"#/sessions/{session}")
    await focus(page, f"edit-{session}-{len(edits)}")
    await page.press("Enter")
    await page.until("document.querySelector('.edit').open")

    shown = await page.run(text_of(".edit"))
    newest = edits[-1]
    assert newest["reason"] in shown
    assert newest["at"] in shown
    assert f"≈ {newest['tokens_before']:,} tokens" in shown
    kept = await replayed.get(f"/_proxy/api/sessions/{session}/edits/{newest['number']}")
    await page.until("document.querySelectorAll('.edit[open] pre').length === 2")
    before, after = await page.run("[...document.querySelectorAll('.edit[open] pre')].map((one) => one.textContent)")
    assert (before, after) == (kept["before"], newest["after"])
    assert f"turn {newest['turn']}" in shown


async def test_money_is_net_and_the_same_everywhere(page, replayed):
    session = await the_session(replayed)
    report = await replayed.get("/_proxy/api/savings?hours=24")
    total, own = report["total"], next(line["bill"] for line in report["by_session"] if line["key"] == session)
    assert own["calls"] == TURNS
    assert own["saved"] != 0
    await visit(page, replayed, "#/savings")

    written = "import('/_proxy/static/format.js').then(({{gain}}) => gain({}))"
    assert await page.run(text_of(".headline strong")) == f"≈ {await page.run(written.format(total['saved']))}"
    tone = "loss" if total["saved"] < 0 else "gain"
    assert await page.run(f"document.querySelector('.headline').classList.contains('{tone}')")
    await page.until("document.querySelector('svg .sum')")

    await visit(page, replayed, f"#/sessions/{session}")
    assert f"≈ {await page.run(written.format(own['saved']))}" in await page.run(text_of(".facts"))


async def test_a_loss_is_shown_with_its_sign(page, replayed):
    await visit(page, replayed)
    module = "import('/_proxy/static/format.js')"

    assert await page.run(f"{module}.then((m) => [m.gain(-0.5), m.tone(-0.5), m.gain(0.5), m.money(1234.5)])") == [
        "−$0.500",
        "loss",
        "+$0.500",
        "$1,234.50",
    ]
    assert await page.run(f"{module}.then((m) => [m.percent(-0.001), m.percent(null), m.tokens(-27407)])") == [
        "0.0 %",
        "–",
        "−27.4k",
    ]


async def test_accuracy_has_a_histogram_for_each_model(page, replayed):
    rows = (await replayed.get("/_proxy/api/accuracy?hours=24"))["rows"]
    await visit(page, replayed, "#/accuracy")
    await page.until(f"document.querySelectorAll('.model svg').length === {len(rows)}")

    first = rows[0]["total"]
    assert f"{first['p95']:.2f} %" in await page.run(text_of(".model .facts"))
    bars = "document.querySelectorAll('.model svg')[0].querySelectorAll('.exactbar, .nearbar, .farbar').length"
    assert await page.run(bars) == sum(bool(count) for count in first["histogram"])


async def test_health_names_the_store_and_each_upstream(page, replayed):
    await visit(page, replayed, "#/health")

    assert "sqlite answers" in await page.run(text_of(".facts"))
    row = await page.run(text_of("tbody tr"))
    assert row.startswith("openai")
    assert "answers" in row


async def test_a_call_appears_by_itself_and_the_stream_comes_back(page, replayed):
    await visit(page, replayed)
    await replayed.greet("Good morning")
    await page.until("document.querySelectorAll('.sessions li').length === 2")

    # The stream is cut. What the page says meanwhile is noted, since it may be over before anybody looks.
    await page.run("""
        window.said = [];
        const live = document.getElementById("live-text");
        new MutationObserver(() => said.push(live.textContent)).observe(live, {childList: true});
        dispatchEvent(new Event("pagehide"));
    """)
    await page.until("said.join() === 'Reconnecting,Live'")
    await page.until(READY)
    await replayed.greet("Good evening")
    await page.until("document.querySelectorAll('.sessions li').length === 3")


async def test_what_another_process_wrote_appears_without_an_event(page, tmp_path):
    async with house(tmp_path) as fresh, left(page):
        await visit(page, fresh)
        other = open_store(f"sqlite://{tmp_path}/state.db?timeout_s=10", ttl_s=3600.0, clock=time.time)
        await other.settle(Settlement(None, a_turn(session="elsewhere", at=time.time())))
        await other.close()

        await page.until("document.querySelector('.sessions a')?.textContent === 'elsewhere'", seconds=60)


@pytest.mark.parametrize("money", [(None, None), (0.0, 0.0), (1.0, 1.0004), (1.0, 0.9998), (1.0, 3_001.0)])
async def test_no_mark_of_the_money_axis_is_cut_off(page, tmp_path, money):
    paid, without = money
    turn = a_turn(session="s", at=time.time(), cost=paid, cost_unpruned=without)
    async with house(tmp_path) as fresh, left(page):
        other = open_store(f"sqlite://{tmp_path}/state.db?timeout_s=10", ttl_s=3600.0, clock=time.time)
        await other.settle(Settlement(None, turn))
        await other.close()
        await visit(page, fresh, "#/savings")
        await page.until("document.querySelector('svg .sum')", seconds=60)

        marks = "[...document.querySelectorAll('svg .tick')]"
        assert await page.run(f"{marks}.filter((mark) => mark.getBBox().x < 0).map((mark) => mark.textContent)") == []
        assert await page.run(f"{marks}.length") > 2


async def test_one_of_many_sessions_is_found_by_a_part_of_its_name(page, tmp_path):
    names = "[...document.querySelectorAll('.sessions a')].map((one) => one.textContent)"
    field = "document.getElementById('find')"
    async with house(tmp_path) as fresh, left(page):
        other = open_store(f"sqlite://{tmp_path}/state.db?timeout_s=10", ttl_s=3600.0, clock=time.time)
        for number in range(25):
            label = "Größere Umbauten" if number == 3 else ""
            await other.settle(Settlement(None, a_turn(session=f"s{number:02}", label=label, at=time.time() - number)))
        await other.close()
        await visit(page, fresh)
        await page.until(f"{names}.length === 10 && !{field}.closest('search').hidden")
        await page.run(f"{field}.focus()")
        await page.type("GRÖSS".replace("SS", "ß"))
        await page.until(f"{names}.join() === 'Größere Umbauten'")

        assert await page.run("document.activeElement.id") == "find"
        assert await axe(page) == []
        await page.type(" nowhere")
        await page.until(text_of(".empty"))
        assert await page.run(text_of(".empty")) == (
            "No session has “GRÖß nowhere” in its name, id, model or upstream."
        )
        await page.run(f"{field}.select()")
        await page.type("s1")
        await page.until(f"{names}.length === 10 && {names}.every((name) => name.startsWith('s1'))")
        await page.size(390)
        assert await page.run("document.documentElement.scrollWidth <= innerWidth")


async def test_where_there_are_few_sessions_nothing_is_to_be_found(page, replayed):
    await visit(page, replayed)
    await page.until("document.querySelector('.sessions li')")

    assert await page.run("document.getElementById('find').closest('search').checkVisibility()") is False


async def test_reasoning_stands_raw_beside_effective_and_accuracy_says_what_became_of_it(page, tmp_path):
    async with house(tmp_path) as fresh, left(page):
        other = open_store(f"sqlite://{tmp_path}/state.db?timeout_s=10", ttl_s=3600.0, clock=time.time)
        whole = {"at": time.time(), "estimated": 9_000, "window": 20_000}
        await other.settle(
            Settlement(None, a_turn(session="stripped", reasoning_tokens=0, reasoning_raw=2_700, **whole))
        )
        await other.settle(Settlement(None, a_turn(session="plain", model="other", **whole)))
        await other.learn(learned_name("openai", "m", "o200k_base"), encode(taught(-1)))
        await other.close()

        row = "[...document.querySelectorAll('.halves tr')].find((row) => row.innerText.includes('reasoning'))"
        await visit(page, fresh, "#/sessions/stripped")
        await page.until(row)
        shown = await page.run(f"[...{row}.cells].map((cell) => cell.innerText.replaceAll('\\u00a0', ' '))")
        assert shown[1:3] == ["≈ 0", "≈ 2,700"]
        assert "As the client sent it" in await page.run(text_of(".halves table"))
        await page.size(390)
        assert await page.run("document.documentElement.scrollWidth <= innerWidth")
        assert await axe(page) == []
        await page.size(1280)

        await visit(page, fresh, "#/sessions/plain")
        await page.until("document.querySelector('.halves tr')")
        assert not await page.run(f"Boolean({row})")
        assert "As the client sent it" not in await page.run(text_of(".halves table"))

        await visit(page, fresh, "#/accuracy")
        await page.until("document.querySelectorAll('.model').length === 2")
        models = await page.run("[...document.querySelectorAll('.model')].map((model) => model.innerText)")
        told = {("m" if text.startswith("m") else "other"): text for text in models}
        assert "dropped" in told["m"]
        assert "not known yet" in told["other"]


async def test_messages_are_queued_and_cancelled_by_keyboard_and_stay_text(page, replayed):
    session = await the_session(replayed)
    said = "<img src=x onerror=document.title='acted'> stop & think"
    await visit(page, replayed, f"#/sessions/{session}")
    await page.run("document.getElementById('say').focus()")
    await page.type(said)
    await page.press("Tab")
    await page.press("Enter")
    await page.until("document.querySelectorAll('.waiting li').length === 1")

    assert await page.run("document.querySelector('.waiting .said').textContent") == said
    assert (await replayed.get(f"/_proxy/api/sessions/{session}/queue"))["queue"][0]["text"] == said

    await page.press("Tab")
    assert await page.run("document.activeElement.getAttribute('aria-label')") == "Cancel message 1"
    await page.press("Enter")
    await page.until("document.querySelector('.queue [role=status]').textContent === 'Cancelled.'")
    await page.until("document.activeElement.id === 'say'")
    assert (await replayed.get(f"/_proxy/api/sessions/{session}/queue"))["queue"] == []
    assert "acted" not in await page.run("document.title")


async def test_modes_are_switched_by_keyboard_for_all_and_for_one(page, replayed):
    session = await the_session(replayed)
    await visit(page, replayed, f"#/sessions/{session}")
    await focus(page, "mode-prune")
    await page.press("ArrowLeft")
    await page.until("fetch('api/mode').then((r) => r.json()).then((m) => m.mode === 'observe')")
    await page.until(f"{key('mode-observe')} === document.activeElement && document.activeElement.checked")
    await page.press("ArrowRight")
    await page.until("fetch('api/mode').then((r) => r.json()).then((m) => m.mode === 'prune')")

    await focus(page, "own-mode-")
    await page.press("ArrowRight")
    await page.until(f"fetch('api/mode').then((r) => r.json()).then((m) => m.sessions['{session}'] === 'off')")
    await page.until(f"{key('own-mode-off')}.checked")
    await page.press("ArrowLeft")
    await page.until(f"fetch('api/mode').then((r) => r.json()).then((m) => !m.sessions['{session}'])")


async def test_the_theme_is_switched_and_kept(page, replayed):
    await visit(page, replayed)
    paper = await page.run("getComputedStyle(document.body).backgroundColor")
    await focus(page, "theme")
    await page.press("Enter")
    await page.press("Enter")

    assert await page.run("document.documentElement.dataset.theme") == "dark"
    assert await page.run("getComputedStyle(document.body).backgroundColor") != paper

    await visit(page, replayed)
    assert await page.run("document.documentElement.dataset.theme") == "dark"
    await page.run("localStorage.clear()")


async def test_the_keyboard_reaches_every_control_in_order_and_shows_where_it_is(page, replayed):
    for fragment in await everywhere(replayed):
        await visit(page, replayed, fragment)

        ringless, missed, in_order = await walk(page)

        assert (ringless, missed) == ([], []), fragment
        assert in_order, fragment


async def test_axe_finds_nothing_and_headings_make_an_outline(page, replayed):
    for fragment in await everywhere(replayed):
        await page.size(1280)
        await visit(page, replayed, fragment)

        assert await axe(page) == [], fragment
        await page.size(390, dark=True)
        assert await axe(page) == [], f"{fragment}, dark and narrow"
        assert await page.run(OUTLINE) == {"ones": 1, "first": 1, "jumps": 0, "mains": 1, "language": "en"}, fragment


async def test_both_panes_of_an_edit_are_reached_by_keyboard_and_axe_finds_nothing(page, replayed):
    session = await the_session(replayed)
    newest = (await replayed.get(f"/_proxy/api/sessions/{session}/edits"))["edits"][-1]["number"]
    await visit(page, replayed, f"#/sessions/{session}")
    await focus(page, f"edit-{session}-{newest}")
    await page.press("Enter")
    await page.until("document.querySelectorAll('.edit[open] pre').length === 2")

    reached = []
    for _ in range(2):
        await page.press("Tab")
        reached.append(await page.run("document.activeElement.dataset.key"))
    assert reached == [f"before-{session}-{newest}", f"after-{session}-{newest}"]
    assert await axe(page) == []
    await page.size(390, dark=True)
    assert await axe(page) == []
    assert await page.run("document.documentElement.scrollWidth <= innerWidth")


async def test_nothing_is_wider_than_the_window_and_targets_are_large(page, replayed, tmp_path):
    for number, fragment in enumerate(await everywhere(replayed)):
        await visit(page, replayed, fragment)
        for width, dark in ((1280, False), (390, True)):
            await page.size(width, dark=dark)
            # The charts are drawn anew for the new width.
            await page.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")
            picture = tmp_path / f"{number}-{width}.png"
            await page.shoot(picture)

            assert await page.run("document.documentElement.scrollWidth <= innerWidth"), (fragment, width)
            assert await page.run(SMALL_TARGETS) == [], (fragment, width)
            assert picture.stat().st_size > 10_000


async def test_no_word_of_the_frame_is_broken_and_long_names_end_after_two_lines(page, tmp_path):
    async with house(tmp_path) as running:
        await running.greet("hello", label="名前 " + "n" * 300)
        for width in (320, 375, 390, 1280):
            await page.size(width)
            await visit(page, running)
            heights = "[...document.querySelectorAll('.top .segmented span')].map((word) => word.firstChild)"
            heights += ".map((word) => { const range = document.createRange(); range.selectNode(word); return range.getClientRects().length; })"
            assert set(await page.run(heights)) == {1}
            name = "document.querySelector('.sessions .who a span')"
            assert await page.run(f"{name}.clientHeight <= 2.2 * parseFloat(getComputedStyle({name}).lineHeight)")
            assert (await page.run(f"{name}.title")).startswith("名前 nnn")
        async with left(page):
            pass


async def test_numbers_are_said_as_people_read_them(page, replayed):
    await visit(page, replayed)
    amounts, counts = [0, 0.00001, -0.0042, 0.1234, 1.5, -1234.5], [950, 12_345, 999_600, 1_250_000]
    say = f"[...{amounts}.map(say.money), ...{counts}.map(say.tokens)]"
    shown = await page.run(f"import('/_proxy/static/format.js').then((say) => {say})")

    assert shown == [
        *("$0.00", "<$0.0001", "−$0.0042", "$0.123", "$1.50", "−$1,234.50"),
        *("950", "12.3k", "1M", "1.25M"),
    ]


async def test_without_calls_it_says_which_base_urls_to_set(page, tmp_path):
    async with house(tmp_path) as fresh, left(page):
        await visit(page, fresh)

        shown = await page.run(text_of(".empty"))
        assert f"{fresh.base}/v1" in shown
        assert "ANTHROPIC_BASE_URL" in shown
        assert await axe(page) == []

        await page.size(390)
        lines = "(copy) => { const range = document.createRange(); range.selectNodeContents(copy); return range.getClientRects().length; }"
        assert set(await page.run(f"[...document.querySelectorAll('.bases button')].map({lines})")) == {1}

        await fresh.greet("Hello")
        await page.until("document.querySelectorAll('.sessions li').length === 1")


async def test_a_proxy_with_a_token_asks_for_it_and_keeps_it_in_the_tab(page, tmp_path):
    async with house(tmp_path, server__admin_token="secret-word") as guarded, left(page):
        await guarded.greet("Hello")
        await page.send("Network.enable")
        # As from another machine: what was forwarded is nobody's local request.
        await page.send("Network.setExtraHTTPHeaders", headers={"x-forwarded-for": "192.0.2.7"})
        await page.open(f"{guarded.base}/_proxy/")
        await page.until("document.getElementById('token').open")
        await page.type("wrong")
        await page.press("Enter")
        await page.until("document.getElementById('token-error').textContent")
        await page.type("secret-word")
        await page.press("Enter")
        await page.until("document.querySelectorAll('.sessions li').length === 1")
        await page.until(READY)

        assert await page.run("Object.values(sessionStorage)") == ["secret-word"]
        assert await page.run("localStorage.length + document.cookie.length") == 0
        assert "secret-word" not in await page.run("location.href + performance.getEntries().map((e) => e.name)")
        page.complaints[:] = [line for line in page.complaints if "401" not in line]
