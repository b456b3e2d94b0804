// One conversation: its context, its timeline, what was taken out of it, what waits to be said, its calls.

import { api } from "../api.js";
import { contextBar, figure, mark, sizes, timeline, timelineLabel, timelineTable } from "../charts.js";
import { copyButton, fact, fill, h, once, pager, section, segmented, table } from "../dom.js";
import { about, ago, count, duration, editsLine, exact, gain, moment, money, percent, shortId, tone } from "../format.js";
import { cutToWindow } from "./common.js";
import { editsPart } from "./edits.js";
import { queuePart } from "./queue.js";
import { barOf } from "./sessions.js";

const PAGE = 200;
const ROWS = 20;

export async function sessionView(main, id) {
  const state = { turns: [], earlier: null, chosen: null, before: 0 };
  const part = Object.fromEntries(["mode", "ident", "facts", "context", "timeline", "calls", "edits"].map((name) => [name, h("div", {})]));
  const head = h("h1", { tabindex: "-1" }, titleOf(id));
  const queue = queuePart(id);
  fill(main,
    h("p", { class: "back" }, h("a", { href: "#/sessions", "data-key": "back" }, "← All sessions")),
    h("div", { class: "titled" }, head, part.mode),
    part.ident, part.facts, section("timeline", "Timeline", part.timeline), section("context", "Context", part.context),
    section("edits", "Edits", part.edits), section("queue", "Queue a message", queue.element), section("calls", "Calls", part.calls));
  const draw = {
    mode: once(part.mode, (mode) => modeOf(id, mode)),
    ident: once(part.ident, identOf),
    facts: once(part.facts, factsOf),
    context: once(part.context, contextOf),
    timeline: once(part.timeline, () => timelineOf(state, earlier)),
    calls: once(part.calls, () => callsOf(state, (before) => ((state.before = before), drawTurns()))),
    edits: once(part.edits, editsPart),
  };
  const drawTurns = () => {
    draw.timeline(state.turns.map((turn) => [turn.turn, turn.at, turn.outcome, turn.actual, state.earlier]));
    draw.calls([state.before, state.turns.map((turn) => [turn.at, turn.outcome])]);
  };

  async function earlier() {
    const page = await api.session(id, PAGE, state.earlier);
    state.turns = merged([...page.turns].reverse(), state.turns);
    state.earlier = page.next;
    state.chosen = null;
    drawTurns();
  }

  async function refresh() {
    const [page, context, edits] = await Promise.all([api.session(id, PAGE), api.context(id).catch(() => null), api.edits(id), queue.refresh()]);
    const first = !state.turns.length;
    state.turns = merged(state.turns, [...page.turns].reverse());
    if (first) state.earlier = page.next;
    head.textContent = page.label || titleOf(id);
    draw.mode(page.mode);
    draw.ident({ id, last: page.turns.find((turn) => turn.turn) ?? page.turns[0] });
    draw.facts({ bill: page.bill, context });
    draw.context(context);
    draw.edits(edits);
    drawTurns();
  }

  await refresh();
  return { title: head.textContent, events: ["call", "mode", "queue", "connected"], session: id, refresh };
}

function merged(older, newer) {
  const known = new Map([...older, ...newer].map((turn) => [`${turn.at}-${turn.turn}-${turn.purpose}`, turn]));
  return [...known.values()].sort((a, b) => a.at - b.at);
}

const modeOf = (id, mode) =>
  segmented({
    legend: "Mode of this session",
    choices: [["", "As all"], ["off", "Off"], ["observe", "Observe"], ["prune", "Prune"]],
    value: mode,
    key: "own-mode",
    look: "inline",
    // Where it fails, the next event shows what is in force.
    onchange: (value) => api.setMode(value || null, id).catch(() => {}),
  });

const titleOf = (id) => `Session ${shortId(id)}`;

const identOf = ({ id, last }) =>
  h("p", { class: "ident" }, h("code", {}, id), copyButton(id, "Copy session id", "copy-id"),
    h("span", {}, `${last.upstream} · ${last.model}`),
    h("span", {}, "newest call ", h("time", { "data-ago": last.at, datetime: new Date(last.at * 1000).toISOString() }, ago(last.at))));

function factsOf({ bill, context }) {
  const summaries = bill.summary_calls ? `, ${count(bill.summary_calls, "summary", "summaries")} included` : "";
  return h("dl", { class: "facts" },
    fact("Net saved", `≈ ${gain(bill.saved)}`, `${money(bill.paid + bill.summaries)} paid${summaries}, ≈ ${money(bill.unpruned)} without${cutToWindow(bill)}`, tone(bill.saved)),
    fact("Input not sent", about(bill.removed_tokens), `${exact(bill.input_tokens)} sent in ${count(bill.calls, "call")}`),
    bill.would_remove_tokens ? fact("Only observed", about(bill.would_remove_tokens), "tokens would not have been sent") : null,
    fact("Read from cache", percent((100 * bill.cache_read_tokens) / (bill.input_tokens || 1)), `${exact(bill.cache_read_tokens)} tokens`),
    fact("Last estimate", context?.last_estimate ? percent(context.last_estimate.error_percent, { places: 2, sign: true }) : "–",
      context?.last_estimate ? `≈ ${exact(context.last_estimate.estimated)}, reported ${exact(context.last_estimate.actual)}` : "nothing was reported yet"));
}

function timelineOf(state, earlier) {
  const turns = state.turns.filter((turn) => turn.purpose !== "summary");
  if (!turns.length) return h("p", { class: "hint" }, "No calls yet.");
  const readout = h("div", { class: "readout" });
  const chosen = () => state.chosen ?? turns.length - 1;
  const slider = h("input", { type: "range", min: 0, max: turns.length - 1, step: 1, "aria-label": "Turn shown below the chart", "data-key": "turn" });
  const pick = (at) => {
    state.chosen = at;
    slider.value = at;
    fill(readout, turnOf(turns[at]));
    slider.setAttribute("aria-valuetext", readout.innerText || readout.textContent);
    for (const bar of slider.closest(".timeline")?.querySelectorAll(".turn") ?? []) bar.classList.toggle("chosen", Number(bar.dataset.at) === at);
  };
  slider.addEventListener("input", () => pick(Number(slider.value)));
  pick(chosen());
  state.chosen = null;
  return h("div", { class: "timeline" },
    figure({
      id: "turns",
      label: timelineLabel(turns),
      legend: h("span", { class: "legend" }, mark("cached", "read from cache"), mark("sent", "sent anew"), mark("unsent", "≈ not sent"), mark("edited", "edits decided")),
      draw: timeline(turns, { chosen, pick }),
      asTable: () => timelineTable(turns),
    }),
    turns.length > 1 ? slider : null,
    readout,
    state.earlier === null ? null : h("button", { type: "button", class: "quiet", onclick: earlier, "data-key": "earlier" }, "Load earlier turns"));
}

function turnOf(turn) {
  const { sent, unpruned } = sizes(turn);
  const known = turn.actual !== null;
  return [
    h("p", {}, h("b", {}, `Turn ${turn.turn}`), ` · ${moment(turn.at)} · ${turn.outcome.replace("_", " ")}`,
      turn.purpose === "main" ? "" : ` · ${turn.purpose}`, turn.failed_open ? ` · went out as it came: ${turn.failed_open}` : ""),
    h("p", {}, known ? `${exact(sent)} tokens sent` : `≈ ${exact(sent)} tokens sent, nothing reported`,
      turn.removed_tokens ? `, ≈ ${exact(unpruned)} unpruned` : "",
      turn.would_remove_tokens ? `, ≈ ${exact(turn.would_remove_tokens)} would not have been (only observed)` : "",
      turn.cached_tokens === null ? "" : `, ${exact(turn.cached_tokens)} read from cache`,
      ` · estimated ≈ ${exact(turn.estimated)}${turn.error_percent === null ? "" : ` (${percent(turn.error_percent, { places: 2, sign: true })})`}`),
    turn.decisions.length ? h("ul", { class: "decisions" }, turn.decisions.map((line) => h("li", {}, line)))
      : turn.skipped ? h("p", { class: "hint" }, `Nothing pruned: ${turn.skipped.replaceAll("_", " ")}`) : null,
  ];
}

const NAMES = { system: "System", tools: "Tools", messages: "Messages", reasoning: "of which reasoning", reserve: "Kept for the answer", closed: "Closed to input", free: "Free" };

function contextOf(context) {
  if (!context) return h("p", { class: "hint" }, "This session has no call of a client's own yet.");
  const { basis } = context;
  const sum = basis.kind === "anchored"
    ? `${exact(basis.last_input)} reported input + ${exact(basis.last_output)} reported output + ≈ ${exact(basis.new)} new ${basis.corrections < 0 ? "−" : "+"} ≈ ${exact(Math.abs(basis.corrections))} corrections`
    : "everything estimated: no earlier call is known";
  const rows = context.rows.filter((row) => row.name !== "reasoning" || row.tokens || context.reasoning_raw);
  const withRaw = rows.some((row) => row.name === "reasoning" && context.reasoning_raw && context.reasoning_raw !== row.tokens);
  return [
    contextBar(barOf(context)),
    h("p", { class: "wide" }, h("b", {}, `≈ ${exact(context.total)}`), context.window ? ` of ${exact(context.window)} tokens (${percent(context.percent)})` : " tokens; window unknown", h("span", { class: "hint" }, ` = ${sum}`)),
    context.warning ? h("p", { class: "warning" }, context.warning) : null,
    h("div", { class: "halves" },
      table({ caption: "What fills the window", rows, columns: [
        { title: "Part", cell: (row) => [h("i", { class: `swatch ${row.name}`, "aria-hidden": "true" }), NAMES[row.name]] },
        { title: "Tokens", cell: (row) => (row.source === "configured" ? exact(row.tokens) : `≈ ${exact(row.tokens)}`), number: true },
        ...(withRaw ? [{ title: "As the client sent it", cell: (row) => (row.name === "reasoning" ? `≈ ${exact(context.reasoning_raw)}` : "–"), number: true }] : []),
        { title: "Share", cell: (row) => percent(row.percent), number: true },
        { title: "Known by", cell: (row) => row.source },
      ] }),
      table({ caption: "Tool results in the history", rows: context.by_tool.slice(0, 8), empty: "No tool results.", columns: [
        { title: "Tool", cell: (row) => row.tool || "(unnamed)" },
        { title: "Tokens", cell: (row) => `≈ ${exact(row.tokens)}`, number: true },
      ] })),
  ];
}

function callsOf(state, go) {
  const newest = [...state.turns].reverse();
  const rows = newest.slice(state.before, state.before + ROWS);
  return [
    table({ caption: "Calls, newest first", rows, columns: [
      { title: "Turn", cell: (turn) => turn.turn || turn.purpose, number: true },
      { title: "Time", cell: (turn) => moment(turn.at) },
      { title: "Estimated", cell: (turn) => (turn.turn ? `≈ ${exact(turn.estimated)}` : "–"), number: true },
      { title: "Reported", cell: (turn) => exact(turn.actual), number: true },
      { title: "Error", cell: (turn) => percent(turn.error_percent, { places: 2, sign: true }), number: true },
      { title: "Output", cell: (turn) => exact(turn.output_tokens), number: true },
      { title: "Paid", cell: (turn) => money(turn.paid), number: true },
      { title: "Without", cell: (turn) => (turn.unpruned === null ? "–" : `≈ ${money(turn.unpruned)}`), number: true },
      { title: "Own time", cell: (turn) => duration(turn.overhead_ms), number: true },
      { title: "Outcome", cell: (turn) => [turn.outcome.replace("_", " "), turn.status === 200 ? "" : ` (${turn.status})`] },
      { title: "New edits", cell: (turn) => editsLine(turn.new_edits) || "–" },
    ] }),
    pager({
      label: "Pages of calls",
      previous: state.before ? () => go(Math.max(0, state.before - ROWS)) : null,
      next: state.before + ROWS < newest.length ? () => go(state.before + ROWS) : null,
      text: `${state.before + 1}–${state.before + rows.length} of ${exact(newest.length)}`,
    }),
  ];
}
