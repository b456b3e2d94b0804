// The published error: how far estimates were off, by the providers' own counts.

import { api } from "../api.js";
import { figure, histogram, histogramTable } from "../charts.js";
import { copyButton, fact, fill, h, once, segmented } from "../dom.js";
import { count, percent } from "../format.js";
import { emptyState, hours, incomplete, periodSwitch } from "./common.js";

let measure = "total";

const TREATMENTS = {
  kept: "counts again although not sent",
  dropped: "does not count although sent",
  "as sent": "counts where it is sent",
  "not known yet": "too few answers with reasoning",
};

export async function accuracyView(main) {
  const body = h("div", {});
  const choice = segmented({
    legend: "Error of",
    choices: [["total", "Whole input"], ["growth", "Growth only"]],
    value: measure,
    key: "measure",
    onchange: (value) => ((measure = value), refresh()),
  });
  fill(main, h("div", { class: "titled" }, h("h1", { tabindex: "-1" }, "Accuracy"), periodSwitch(() => refresh())),
    h("p", { class: "hint" }, "Estimated minus reported input, in percent. Whole input: of the reported count. Growth only: of what had to be guessed."), choice, body);
  const draw = once(body, ({ report }) => pageOf(report));

  async function refresh() {
    draw({ report: { ...(await api.accuracy(hours())), since: 0 }, measure });
  }

  await refresh();
  return { title: "Accuracy", events: ["call", "connected"], refresh };
}

function pageOf(report) {
  if (!report.rows.length) return hours() ? h("p", { class: "empty" }, "No calls in this period. Choose a longer one.") : emptyState(copyButton);
  return [incomplete(report), report.rows.map((row) => modelOf(row, report.bounds))];
}

function modelOf(row, bounds) {
  const spread = row[measure];
  const id = `model-${row.upstream}-${row.model}-${row.basis}`.replace(/[^\w-]/g, "_");
  const basis = row.basis === "anchored" ? "anchored on the call before" : "nothing known before";
  const biasOf = (bias) => (bias === null ? null : Math.abs(bias) < 0.005 ? "neither high nor low" : bias > 0 ? "estimates are high" : "estimates are low");
  return h("section", { "aria-labelledby": id, class: "model" },
    h("h2", { id }, row.model, h("small", {}, `${row.upstream} · ${basis}`)),
    h("dl", { class: "facts" },
      fact("Median", percent(spread.median, { places: 2 }), count(spread.calls, "call")),
      fact("95th percentile", percent(spread.p95, { places: 2 })),
      fact("Worst", percent(spread.max, { places: 2 })),
      fact("Bias", percent(spread.bias, { places: 2, sign: true }), biasOf(spread.bias)),
      row.unreported ? fact("Not reported", String(row.unreported), "in no figure") : null,
      fact("Learned from", count(row.learned_from, "call"), "whose reported counts corrected the estimate"),
      row.reasoning ? fact("Earlier reasoning", row.reasoning, TREATMENTS[row.reasoning]) : null),
    spread.calls
      ? figure({
          id: `${id}-${measure}`,
          label: `Errors of ${count(spread.calls, "call")}: median ${percent(spread.median, { places: 2 })}, 95th percentile ${percent(spread.p95, { places: 2 })}, worst ${percent(spread.max, { places: 2 })}.`,
          legend: h("span", { class: "hint" }, "calls by error, percent"),
          draw: histogram(spread.histogram, bounds),
          asTable: () => histogramTable(spread.histogram, bounds),
        })
      : h("p", { class: "hint" }, measure === "growth" ? "Growth is known for anchored calls only." : "The provider has reported no counts."));
}
