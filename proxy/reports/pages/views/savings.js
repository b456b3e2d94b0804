// What was saved, net of broken caches and of our own summary calls. A loss is shown as one.

import { api } from "../api.js";
import { figure, mark, savingsChart, savingsTable } from "../charts.js";
import { copyButton, fact, fill, h, once, section, table } from "../dom.js";
import { about, count, exact, gain, money, percent, shortId, tone } from "../format.js";
import { cutToWindow, emptyState, hours, incomplete, periodSwitch } from "./common.js";

export async function savingsView(main) {
  const body = h("div", {});
  fill(main, h("div", { class: "titled" }, h("h1", { tabindex: "-1" }, "Savings"), periodSwitch(() => refresh())), body);
  const draw = once(body, ({ report, board }) => pageOf(report, board));

  async function refresh() {
    const [report, board] = await Promise.all([api.savings(hours()), api.dashboard(hours())]);
    draw({ report: { ...report, since: 0 }, board: { steps: board.steps, step_s: board.step_s } });
  }

  await refresh();
  return { title: "Savings", events: ["call", "connected"], refresh };
}

function pageOf(report, board) {
  const { total } = report;
  if (!total.calls) return hours() ? h("p", { class: "empty" }, "No calls in this period. Choose a longer one.") : emptyState(copyButton);
  return [
    incomplete(report),
    h("p", { class: `headline ${tone(total.saved)}` }, h("strong", {}, `≈ ${gain(total.saved)}`),
      h("span", {}, total.priced ? `${total.saved < 0 ? "lost" : "saved"}, net: ≈ ${percent(total.saved_percent, { sign: true })} of the unpruned bill` : "no call has a known price and usage yet")),
    h("dl", { class: "facts" },
      fact("Without the proxy", `≈ ${money(total.unpruned)}`, `by a simulated cache${cutToWindow(total)}`),
      fact("Paid", money(total.paid), `${count(total.priced, "priced call")} of ${exact(total.calls)}`),
      fact("Our summaries", money(total.summaries), count(total.summary_calls, "call")),
      fact("Input not sent", about(total.removed_tokens), `${exact(total.input_tokens)} tokens sent`),
      total.would_remove_tokens ? fact("Only observed", about(total.would_remove_tokens), "tokens would not have been sent") : null),
    section("over-time", "Over time", figure({
      id: "saved",
      label: `Net savings over time: about ${gain(total.saved)} in ${count(total.calls, "call")}.`,
      legend: h("span", { class: "legend" }, mark("gainbar", "saved"), mark("lossbar", "lost"), mark("sum", "so far")),
      draw: savingsChart(board.steps, board.step_s),
      asTable: () => savingsTable(board.steps),
    })),
    section("by-model", "By model", lines(report.by_model, "Model", (line) => line.key)),
    section("by-session", "By session", lines(report.by_session, "Session", (line) =>
      h("a", { href: `#/sessions/${encodeURIComponent(line.key)}`, "data-key": `saved-${line.key}` }, line.label || shortId(line.key)))),
    report.holdout ? section("holdout", "Held-out sessions", holdoutOf(report.holdout)) : null,
  ];
}

const lines = (rows, title, name) =>
  table({ caption: `Savings by ${title.toLowerCase()}`, rows, columns: [
    { title, cell: name },
    { title: "Net", cell: ({ bill }) => h("span", { class: tone(bill.saved) }, `≈ ${gain(bill.saved)}`), number: true },
    { title: "Of bill", cell: ({ bill }) => percent(bill.saved_percent, { sign: true }), number: true },
    { title: "Paid", cell: ({ bill }) => money(bill.paid + bill.summaries), number: true },
    { title: "Without", cell: ({ bill }) => `≈ ${money(bill.unpruned)}`, number: true },
    { title: "Calls", cell: ({ bill }) => exact(bill.calls), number: true },
    { title: "Sent", cell: ({ bill }) => exact(bill.input_tokens), number: true },
    { title: "Not sent", cell: ({ bill }) => `≈ ${exact(bill.removed_tokens)}`, number: true },
  ] });

function holdoutOf({ treated, held_out: held }) {
  const row = (name, arm) => ({ name, arm });
  return [
    h("p", { class: "hint" }, "Real bills side by side, no simulation: sessions that the proxy left alone, and the others."),
    table({ caption: "Treated and held-out sessions", rows: [row("Treated", treated), row("Held out", held)], columns: [
      { title: "Sessions that were", cell: ({ name }) => name },
      { title: "Sessions", cell: ({ arm }) => exact(arm.sessions), number: true },
      { title: "Calls", cell: ({ arm }) => exact(arm.bill.calls), number: true },
      { title: "Paid a call", cell: ({ arm }) => money(arm.paid_per_call), number: true },
      { title: "Input a call", cell: ({ arm }) => exact(arm.input_per_call && Math.round(arm.input_per_call)), number: true },
    ] }),
  ];
}
