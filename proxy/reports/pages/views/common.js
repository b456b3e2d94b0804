// What several pages need.

import { h, segmented } from "../dom.js";
import { count } from "../format.js";

/** The period that a report looks back on. */
export const PERIODS = [
  ["1", "1 h"],
  ["24", "24 h"],
  ["168", "7 d"],
  ["0", "All"],
];

let period = "24";

/** A switch for it, shared by the pages; `changed` draws anew. */
export const periodSwitch = (changed) =>
  segmented({
    legend: "Period",
    choices: PERIODS,
    value: period,
    key: "period",
    onchange: (value) => {
      period = value;
      changed();
    },
  });

/** Hours of the chosen period; 0 for all. */
export const hours = () => Number(period);

/** Says that a report did not look at everything. */
export const incomplete = (report) =>
  report.complete ? null : h("p", { class: "warning" }, "There are more calls in this period than were looked at: the newest 20,000 are counted.");

/** How calls are reckoned in the bill without the proxy that its provider would have refused; empty where there are none. */
export const cutToWindow = (bill) => (bill.too_long ? `, ${count(bill.too_long, "call")} too long for the window as if cut to it` : "");

/** What to do when there is nothing to show. */
export function emptyState(copyButton) {
  const here = location.origin;
  const bases = [
    ["OpenAI clients", "OPENAI_BASE_URL", `${here}/v1`],
    ["Anthropic clients, Claude Code", "ANTHROPIC_BASE_URL", here],
    ["Gemini clients", "GOOGLE_GEMINI_BASE_URL", here],
    ["Any other upstream, by name", "", `${here}/up/NAME/v1`],
  ];
  return h("div", { class: "empty" },
    h("h2", {}, "No calls yet"),
    h("p", {}, "Point a client at this proxy; its first call appears here by itself. Keys stay where they are."),
    h("dl", { class: "bases" }, bases.map(([who, variable, url]) =>
      h("div", {}, h("dt", {}, who, variable ? h("code", {}, variable) : null), h("dd", {}, h("code", {}, url), copyButton(url, `Copy the base URL for ${who}`, `base-${variable}`))))));
}
