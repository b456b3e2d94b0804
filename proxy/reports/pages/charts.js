// Charts drawn by hand. Each is a figure: an SVG with a sentence for those who do not see it, and the same as a table.

import { fill, h, s, table } from "./dom.js";
import { about, clock, count, exact, gain, money, moment, moneyMarks, percent, tokens } from "./format.js";

const HEIGHT = 220;
const EDGE = { top: 18, right: 4, bottom: 24, left: 46 };
const opened = new Set();

/** A chart with its legend and a button for the table. `draw(width)` gives the SVG; drawn again when the width changes. */
export function figure({ id, label, legend, draw, asTable }) {
  const picture = h("div", { class: "picture" });
  const numbers = h("div", { id: `${id}-table` });
  const button = h("button", { type: "button", class: "quiet", "aria-controls": `${id}-table`, "data-key": `${id}-toggle` });
  const show = () => {
    const open = opened.has(id);
    button.textContent = open ? "Show chart" : "Show as table";
    picture.hidden = open;
    numbers.hidden = !open;
    fill(numbers, open ? asTable() : null);
  };
  button.addEventListener("click", () => {
    if (!opened.delete(id)) opened.add(id);
    show();
  });
  show();
  let drawn = 0;
  new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (!width || width === drawn) return;
    drawn = width;
    fill(picture, draw(width, label));
  }).observe(picture);
  return h("figure", { class: "chart" }, h("figcaption", {}, legend, button), picture, numbers);
}

/** What a mark in the legend stands for. */
export const mark = (kind, text) => h("span", { class: "mark" }, h("i", { class: kind, "aria-hidden": "true" }), text);

const canvas = (width, height, label, ...children) =>
  s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, children);

/** Some four round steps, no smaller than `least`, from 0 (or below it) to the top. */
function ticks(low, high, least) {
  const rough = Math.max((high - low) / 4, least);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, at) => (first + at) * step);
}

/** Axis marks from low to high. `text(step)` gives what writes a mark. */
function frame({ width, low, high, text, least = 0, height = HEIGHT, left = EDGE.left }) {
  const marks = ticks(low, high, least);
  const write = text(marks[1] - marks[0]);
  const bottom = height - EDGE.bottom;
  const scale = (bottom - EDGE.top) / (marks.at(-1) - marks[0] || 1);
  const y = (value) => bottom - (value - marks[0]) * scale;
  const lines = marks.map((value) =>
    s("g", {}, s("line", { class: value === 0 ? "axis" : "grid", x1: left, x2: width - EDGE.right, y1: y(value), y2: y(value) }),
      s("text", { class: "tick", x: left - 8, y: y(value) + 4, "text-anchor": "end" }, write(value))),
  );
  return { lines, y, left, right: width - EDGE.right, bottom, top: marks.at(-1) };
}

const rect = (kind, x, y, width, height) =>
  s("rect", { class: kind, x: x.toFixed(2), y: y.toFixed(2), width: Math.max(0.5, width).toFixed(2), height: Math.max(0, height).toFixed(2) });

const HATCH = () =>
  s("defs", {}, s("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("rect", { class: "stripe", width: 2, height: 5 })));

/** The model's window, where it is in sight. */
const limit = (size, plot) =>
  size && size <= plot.top
    ? s("g", {}, s("line", { class: "limit", x1: plot.left, x2: plot.right, y1: plot.y(size), y2: plot.y(size) }),
        s("text", { class: "tick", x: plot.right, y: plot.y(size) - 5, "text-anchor": "end" }, `window ${tokens(size)}`))
    : null;

/** What went out at a call, and what would have gone out: reported where the provider reported it. */
export const sizes = (turn) => {
  const sent = turn.actual ?? turn.estimated;
  return { sent, unpruned: sent + turn.removed_tokens, cached: Math.min(turn.cached_tokens ?? 0, sent), edits: total(turn.new_edits) };
};

const total = (counts) => Object.values(counts ?? {}).reduce((sum, n) => sum + n, 0);

/** Input per call: sent against unpruned, cache reads, edits marked. `pick(index)` is told which bar was pointed at. */
export function timeline(turns, { chosen, pick }) {
  return (width, label) => {
    const rows = turns.map(sizes);
    const plot = frame({ width, low: 0, high: Math.max(1, ...rows.map((row) => row.unpruned)), text: () => tokens, least: 1 });
    const slot = (plot.right - plot.left) / rows.length;
    const gap = slot > 6 ? Math.min(4, slot * 0.22) : slot > 2.5 ? 1 : 0;
    const bar = Math.min(slot - gap, 44);
    const bars = rows.map((row, at) => {
      const x = plot.left + at * slot + (slot - bar) / 2;
      const top = plot.y(row.unpruned);
      return s("g", { class: at === chosen() ? "turn chosen" : "turn", "data-at": at },
        s("rect", { class: "hit", x: plot.left + at * slot, y: EDGE.top, width: slot, height: plot.bottom - EDGE.top }),
        row.unpruned > row.sent ? rect("unsent", x, top, bar, plot.y(row.sent) - top) : null,
        rect("sent", x, plot.y(row.sent), bar, plot.y(row.cached) - plot.y(row.sent)),
        row.cached ? rect("cached", x, plot.y(row.cached), bar, plot.bottom - plot.y(row.cached)) : null,
        row.edits ? s("path", { class: "edited", d: `M${(x + bar / 2).toFixed(1)} ${(top - 3).toFixed(1)}l-4.5-8h9z` }) : null,
        turns[at].outcome === "ok" ? null
          : s("path", { class: "failed", d: `M${x + bar / 2 - 3} ${plot.bottom + 3}l6 6m0-6l-6 6` }));
    });
    const every = Math.max(1, Math.ceil(28 / slot));
    const numbers = turns.map((turn, at) =>
      at % every ? null : s("text", { class: "tick", x: plot.left + (at + 0.5) * slot, y: HEIGHT - 4, "text-anchor": "middle" }, turn.turn));
    const drawn = canvas(width, HEIGHT, label, HATCH(), plot.lines, bars, limit(turns.at(-1).window, plot), numbers);
    drawn.addEventListener("click", (event) => {
      const at = event.target.closest("[data-at]")?.dataset.at;
      if (at !== undefined) pick(Number(at));
    });
    return drawn;
  };
}

/** The timeline as a table. */
export const timelineTable = (turns) =>
  table({
    caption: "Input per call",
    rows: turns,
    columns: [
      { title: "Turn", cell: (turn) => turn.turn, number: true },
      { title: "Sent", cell: (turn) => (turn.actual === null ? `≈ ${exact(turn.estimated)}` : exact(turn.actual)), number: true },
      { title: "Unpruned", cell: (turn) => `≈ ${exact(sizes(turn).unpruned)}`, number: true },
      { title: "From cache", cell: (turn) => exact(turn.cached_tokens), number: true },
      { title: "New edits", cell: (turn) => total(turn.new_edits) || "–", number: true },
      { title: "Outcome", cell: (turn) => turn.outcome },
    ],
  });

/** Net savings: a bar a step, below the line where a step cost more, and the running sum as a line. */
export function savingsChart(steps, stepS) {
  return (width, label) => {
    const values = steps.flatMap((step) => [step.bill.saved, step.saved_so_far]);
    const low = Math.min(0, ...values);
    // Finer marks would be longer than the room beside the axis.
    const high = Math.max(low < 0 ? 0 : 0.01, ...values);
    const plot = frame({ width, low, high, text: moneyMarks, least: 0.001, left: 62 });
    const first = steps[0].at;
    const spots = (steps.at(-1).at - first) / stepS + 1;
    const slot = (plot.right - plot.left) / spots;
    const middle = (step) => plot.left + ((step.at - first) / stepS + 0.5) * slot;
    const bar = Math.max(2, Math.min(slot * 0.72, 40));
    const bars = steps.map(({ bill, at }) => {
      const tops = [plot.y(0), plot.y(bill.saved)].sort((a, b) => a - b);
      return rect(bill.saved < 0 ? "lossbar" : "gainbar", middle({ at }) - bar / 2, tops[0], bar, tops[1] - tops[0]);
    });
    const points = steps.map((step) => `${middle(step).toFixed(1)},${plot.y(step.saved_so_far).toFixed(1)}`);
    const end = steps.at(-1);
    const shown = Math.max(2, Math.floor((plot.right - plot.left) / 90));
    const labels = [];
    for (let at = 0; at < spots; at += Math.max(1, Math.ceil(spots / shown))) {
      const time = first + at * stepS;
      labels.push(s("text", { class: "tick", x: middle({ at: time }), y: HEIGHT - 4, "text-anchor": slot * 0.5 < 24 && at === 0 ? "start" : "middle" }, clock(time, stepS)));
    }
    return canvas(width, HEIGHT, label, plot.lines, bars, s("polyline", { class: "sum", points: points.join(" ") }),
      s("circle", { class: "sumend", cx: middle(end), cy: plot.y(end.saved_so_far), r: 3.5 }), labels);
  };
}

/** The same as a table. */
export const savingsTable = (steps) =>
  table({
    caption: "Net savings over time",
    rows: steps,
    columns: [
      { title: "From", cell: (step) => moment(step.at) },
      { title: "Calls", cell: (step) => exact(step.bill.calls), number: true },
      { title: "Paid", cell: (step) => money(step.bill.paid + step.bill.summaries), number: true },
      { title: "Without", cell: (step) => `≈ ${money(step.bill.unpruned)}`, number: true },
      { title: "Net", cell: (step) => `≈ ${gain(step.bill.saved)}`, number: true },
      { title: "So far", cell: (step) => `≈ ${gain(step.saved_so_far)}`, number: true },
    ],
  });

/** Errors in buckets; the middle one holds those that were as good as exact. */
export function histogram(counts, bounds) {
  return (width, label) => {
    const height = 150;
    const plot = frame({ width, low: 0, high: Math.max(1, ...counts), text: () => tokens, least: 1, height, left: 34 });
    const slot = (plot.right - plot.left) / counts.length;
    const bars = counts.map((n, at) => {
      const inner = bounds[at - 1] ?? -Infinity;
      const size = Math.min(Math.abs(inner), Math.abs(bounds[at] ?? Infinity));
      const kind = inner < 0 && (bounds[at] ?? 1) > 0 ? "exactbar" : size >= 5 ? "farbar" : "nearbar";
      return n ? rect(kind, plot.left + at * slot + 1, plot.y(n), slot - 2, plot.bottom - plot.y(n)) : null;
    });
    const labels = bounds.map((bound, at) =>
      [50, 5, 0.5, 0.1].includes(Math.abs(bound)) && !(Math.abs(bound) === 0.1 && slot < 24)
        ? s("text", { class: "tick", x: plot.left + (at + 1) * slot, y: height - 6, "text-anchor": "middle" }, `${bound < 0 ? "−" : "+"}${Math.abs(bound)}`)
        : null);
    return canvas(width, height, label, plot.lines, bars, labels);
  };
}

/** The same as a table. */
export const histogramTable = (counts, bounds) =>
  table({
    caption: "Errors by size",
    rows: counts.map((n, at) => ({ n, at })).filter(({ n }) => n),
    columns: [
      { title: "Error", cell: ({ at }) => bucket(bounds, at) },
      { title: "Calls", cell: ({ n }) => exact(n), number: true },
    ],
  });

function bucket(bounds, at) {
  const text = (value) => percent(value, { sign: true });
  if (at === 0) return `up to ${text(bounds[0])}`;
  return at === bounds.length ? `over ${text(bounds.at(-1))}` : `${text(bounds[at - 1])} to ${text(bounds[at])}`;
}

/** What fills the window: system, tools, messages, the answer's reserve; hatched below, how far it would reach unpruned. */
export function contextBar({ window: size, system = 0, tools = 0, messages, removed, reserve = 0, closed = 0 }) {
  const used = system + tools + messages;
  const scale = Math.max(size ?? 0, used + reserve + closed, used + removed, 1);
  const parts = [
    ["system", system],
    ["tools", tools],
    ["messages", messages],
    ["free", scale - used - reserve - closed],
    ["reserve", reserve + closed],
  ];
  const share = size ? percent((100 * used) / size) : "window unknown";
  const label = `Context: about ${exact(used)} tokens${size ? ` of ${exact(size)}, ${share}` : ", window unknown"}; ${about(removed)} tokens of the history not sent.`;
  const wide = (n) => `${((100 * n) / scale).toFixed(2)}%`;
  return h("div", { class: "context", role: "img", "aria-label": label },
    h("div", { class: "filled" }, parts.map(([kind, n]) => (n > 0 ? h("i", { class: kind, style: { width: wide(n) } }) : null))),
    removed > 0 ? h("i", { class: "unsent", style: { "margin-left": wide(used), width: wide(removed) } }) : null);
}

/** What a timeline says in a sentence. */
export function timelineLabel(turns) {
  const sums = turns.map(sizes).reduce((sum, row) => ({ sent: sum.sent + row.sent, unpruned: sum.unpruned + row.unpruned, edits: sum.edits + row.edits, cached: sum.cached + row.cached }));
  return `Input per call over ${count(turns.length, "call")}: ${exact(sums.sent)} tokens sent, ${exact(sums.cached)} of them read from the cache, about ${exact(sums.unpruned)} without pruning; ${count(sums.edits, "edit")}.`;
}
