// How store and upstreams are doing.

import { api } from "../api.js";
import { fact, fill, h, once, section, table } from "../dom.js";
import { ago, count, duration, exact } from "../format.js";
import { hours, incomplete, periodSwitch } from "./common.js";

export async function healthView(main) {
  const body = h("div", {});
  fill(main, h("div", { class: "titled" }, h("h1", { tabindex: "-1" }, "Health"), periodSwitch(() => refresh())), body);
  const draw = once(body, pageOf);

  async function refresh() {
    const { steps, since, open_calls: open, ...board } = await api.dashboard(hours());
    draw(board);
  }

  await refresh();
  return { title: "Health", events: ["call", "store", "connected"], refresh };
}

const STATES = { good: "answers", failing: "failing" };

function pageOf(board) {
  return [
    incomplete(board),
    h("dl", { class: "facts" },
      fact("Store", board.store_healthy ? `${board.store} answers` : `${board.store} is down`,
        board.store_healthy ? null : "memory stands in; calls go on; `store_lost` in the log says why", board.store_healthy ? "gain" : "loss"),
      fact("Store failures", exact(board.store_failures), "since this process began", board.store_failures ? "loss" : ""),
      fact("Upstreams", exact(board.addresses), "have an address"),
      fact("Version", board.version)),
    section("upstreams", "Upstreams", table({ caption: "Calls by upstream", rows: board.upstreams, empty: "No upstream was called in this period.", columns: [
      { title: "Upstream", cell: (row) => row.upstream },
      { title: "State", cell: (row) => h("span", { class: `state ${row.state}` }, STATES[row.state]) },
      { title: "Newest call", cell: (row) => [h("time", { "data-ago": row.last_at, datetime: new Date(row.last_at * 1000).toISOString() }, ago(row.last_at)), row.last_outcome === "ok" ? "" : ` · ${row.last_outcome.replace("_", " ")} ${row.last_status ?? ""}`] },
      { title: "Calls", cell: (row) => exact(row.calls), number: true },
      { title: "Outcomes", cell: (row) => Object.entries(row.outcomes).map(([name, n]) => `${n} ${name.replace("_", " ")}`).join(", ") },
      { title: "To first byte", cell: (row) => duration(row.head_ms), number: true },
      { title: "Own time", cell: (row) => duration(row.overhead_ms), number: true },
      { title: "Failed open", cell: (row) => (row.failed_open ? h("span", { class: "loss" }, count(row.failed_open, "call")) : "0"), number: true },
    ] })),
    h("p", { class: "hint under" }, "Times are medians. Own time is what the proxy itself took. Failed open: a stage of the proxy failed, and the call went out as it came."),
    h("p", {}, h("a", { href: "../metrics", "data-key": "metrics" }, "Prometheus metrics"), " · ", h("a", { href: "openapi.json", "data-key": "openapi" }, "API description")),
  ];
}
