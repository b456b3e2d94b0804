// The list of conversations, newest call first, with how full each one's window is.

import { api } from "../api.js";
import { contextBar, mark } from "../charts.js";
import { copyButton, fact, fill, h, once, pager } from "../dom.js";
import { about, ago, count, exact, gain, nameOf, percent, tone } from "../format.js";
import { emptyState } from "./common.js";

const PAGE = 10;
const TYPING_MS = 200;

export async function sessionsView(main) {
  let offset = 0;
  let find = "";
  let typing;
  const contexts = new Map();
  const totals = h("dl", { class: "facts" });
  const search = finder((text) => {
    clearTimeout(typing);
    typing = setTimeout(() => ((find = text.trim()), (offset = 0), refresh()), TYPING_MS);
  });
  const list = h("div", {});
  fill(main, h("h1", { tabindex: "-1" }, "Sessions"), totals, search, list);
  const drawTotals = once(totals, totalsOf);
  const drawList = once(list, ({ page, shown, find }) => listOf(page, new Map(shown), find, (to) => ((offset = to), refresh())));

  async function refresh() {
    const wanted = find;
    const page = await api.sessions(PAGE, offset, wanted);
    // An answer to what stands there no longer.
    if (wanted !== find) return;
    search.hidden = !wanted && !page.offset && page.next === null;
    const changed = page.sessions.filter((row) => contexts.get(row.session)?.turns !== row.turns);
    await Promise.all(changed.map(async (row) => {
      const found = await api.context(row.session).catch(() => null);
      contexts.set(row.session, { turns: row.turns, found });
    }));
    drawList({ page, shown: page.sessions.map((row) => [row.session, contexts.get(row.session)?.found]), find: wanted });
    const [savings, accuracy] = await Promise.all([api.savings(24), api.accuracy(24)]);
    drawTotals({ savings: savings.total, accuracy: accuracy.overall });
  }

  await refresh();
  return { title: "Sessions", events: ["call", "mode", "queue", "connected"], refresh };
}

function totalsOf({ savings, accuracy }) {
  if (!savings.calls) return [];
  const anchored = accuracy.find((row) => row.basis === "anchored") ?? accuracy[0];
  const unpruned = savings.input_tokens + savings.removed_tokens;
  return [
    fact("Net saved, 24 h", `≈ ${gain(savings.saved)}`, savings.saved_percent === null ? "no priced calls yet" : `≈ ${percent(savings.saved_percent, { sign: true })} of the unpruned bill`, tone(savings.saved)),
    fact("Input not sent", about(savings.removed_tokens), `${percent((100 * savings.removed_tokens) / (unpruned || 1))} of ${about(unpruned)} tokens`),
    fact("Read from cache", percent((100 * savings.cache_read_tokens) / (savings.input_tokens || 1)), `of ${exact(savings.input_tokens)} input tokens`),
    fact("Estimate error", anchored ? percent(anchored.total.median, { places: 2 }) : "–", anchored ? `median of ${count(anchored.total.calls, "call")}, ${anchored.basis}` : null),
  ];
}

/** Where one looks for a session; shown once there is more than a page of them. */
function finder(oninput) {
  const field = h("input", { type: "search", id: "find", maxlength: "200", autocomplete: "off", spellcheck: "false", placeholder: "Name, id, model or upstream", oninput: () => oninput(field.value) });
  return h("search", { class: "find", hidden: true }, h("label", { for: "find" }, "Find a session"), field);
}

function listOf(page, contexts, find, go) {
  if (!page.sessions.length && find) return h("p", { class: "empty", role: "status" }, `No session has “${find}” in its name, id, model or upstream.`);
  if (!page.sessions.length && !page.offset) return emptyState(copyButton);
  const last = page.offset + page.sessions.length;
  return [
    h("p", { class: "legend", "aria-hidden": "true" }, mark("system", "system"), mark("tools", "tools"), mark("messages", "messages"), mark("reserve", "kept for the answer"), mark("unsent", "≈ not sent")),
    h("ul", { class: "sessions" }, page.sessions.map((row) => h("li", {}, sessionOf(row, contexts.get(row.session))))),
    pager({
      label: "Pages of sessions",
      previous: page.offset ? () => go(Math.max(0, page.offset - PAGE)) : null,
      next: page.next === null ? null : () => go(page.next),
      text: `${page.offset + 1}–${last}`,
    }),
  ];
}

function sessionOf(row, context) {
  const badges = [row.mode ? `mode ${row.mode}` : null, row.queued ? `${row.queued} queued` : null, context && context.outcome !== "ok" ? context.outcome.replace("_", " ") : null];
  return [
    h("div", { class: "who" },
      h("a", { href: `#/sessions/${encodeURIComponent(row.session)}`, "data-key": `session-${row.session}` }, h("span", { title: nameOf(row) }, nameOf(row))),
      h("span", { class: "hint" }, `${row.upstream} · ${row.model}`),
      badges.filter(Boolean).map((text) => h("span", { class: "badge" }, text))),
    h("p", { class: "when hint" }, count(row.turns, "call"), " · ", h("time", { datetime: new Date(row.last_at * 1000).toISOString(), "data-ago": row.last_at }, ago(row.last_at))),
    context ? contextBar(barOf(context)) : h("div", { class: "context" }, h("div", { class: "filled" })),
    h("p", { class: "fill" },
      context?.percent != null ? h("b", {}, `≈ ${percent(context.percent)}`) : h("b", {}, context ? about(context.total) : "–"),
      context?.window ? ` of ${exact(context.window)}` : context ? " of an unknown window" : "",
      h("span", { class: "out" }, context?.removed_tokens ? `${about(context.removed_tokens)} not sent` : context?.would_remove_tokens ? `${about(context.would_remove_tokens)} would not be sent` : "nothing taken out")),
  ];
}

/** A context display's rows as the parts of a bar. */
export function barOf(context) {
  const of = (name) => context.rows.find((row) => row.name === name)?.tokens ?? 0;
  return { window: context.window, system: of("system"), tools: of("tools"), messages: of("messages"), reserve: of("reserve"), closed: of("closed"), removed: context.removed_tokens };
}
