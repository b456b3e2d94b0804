// What stands in a conversation instead of what its client has: each edit's before and after, and why.

import { api } from "../api.js";
import { fill, h, pager, segmented } from "../dom.js";
import { exact, kindName, tokens } from "../format.js";

const PAGE = 10;
const view = { kind: "", at: 0, session: "", observed: false, saved: 0 };
const opened = new Set();
/** What stood there, by edit: asked for when somebody looks, and never changing. */
const originals = new Map();

/** The list, newest edit first, by kind if one is chosen. */
export function editsPart(found) {
  if (view.session !== found.session) Object.assign(view, { kind: "", at: 0, session: found.session });
  if (!found.known) return h("p", { class: "hint" }, "The store no longer has this conversation's plan; its next edit begins a new one.");
  if (!found.edits.length) return h("p", { class: "hint" }, "Nothing has been taken out of this conversation: every body went out as it came.");
  const all = [...found.edits].reverse();
  view.observed = found.observed;
  // What was put in is in no count of what was taken out.
  view.saved = found.removed_tokens || all.reduce((sum, edit) => sum + edit.saved_tokens, 0);
  const region = h("div", {});
  const draw = () => fill(region, pageOf(all, draw));
  draw();
  return region;
}

function pageOf(all, draw) {
  const kinds = [...new Set(all.map((edit) => edit.kind))];
  const chosen = view.kind ? all.filter((edit) => edit.kind === view.kind) : all;
  const shown = chosen.slice(view.at, view.at + PAGE);
  const go = (at) => () => {
    view.at = at;
    draw();
  };
  return [
    h("p", {}, h("b", {}, `≈ ${exact(Math.abs(view.saved))} tokens`), summaryOf(view.saved, all.length)),
    kinds.length < 2 ? null : segmented({
      legend: "Kind of edit",
      choices: [["", `All ${all.length}`], ...kinds.map((kind) => [kind, `${kindName(kind)} ${all.filter((edit) => edit.kind === kind).length}`])],
      value: view.kind,
      key: "edit-kind",
      onchange: (kind) => {
        Object.assign(view, { kind, at: 0 });
        draw();
      },
    }),
    h("ol", { class: "edits", reversed: true }, shown.map((edit) => h("li", { value: edit.number }, editOf(edit)))),
    pager({
      label: "Pages of edits",
      previous: view.at ? go(Math.max(0, view.at - PAGE)) : null,
      next: view.at + PAGE < chosen.length ? go(view.at + PAGE) : null,
      text: `${view.at + 1}–${view.at + shown.length} of ${exact(chosen.length)}`,
    }),
  ];
}

function summaryOf(saved, number) {
  const way = saved < 0 ? "put into" : "taken out of";
  const edits = number === 1 ? "the plan's one edit" : `the plan's ${exact(number)} edits`;
  return view.observed
    ? ` would be ${way} the newest request by ${edits}. This session is only observed: its requests go out as they come.`
    : ` ${way} the newest request by ${edits}. The client's own history is untouched.`;
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

function editOf(edit) {
  const key = [view.session, edit.number, edit.kind, edit.at].join("-");
  const before = h("div", {});
  const show = async () => {
    if (!originals.has(key)) {
      fill(before, h("p", { class: "hint" }, "Loading what stood there"));
      const found = await api.edit(view.session, edit.number).catch((error) => ({ before: null, before_note: `not shown: ${error.message}` }));
      if (found.before !== null) originals.set(key, found);
      else return fill(before, h("p", {}, sentence(found.before_note)));
    }
    const { before: text, before_cut: cut } = originals.get(key);
    fill(before, pane(`What stood there, edit ${edit.number}`, text, `before-${view.session}-${edit.number}`),
      cut ? h("p", { class: "hint" }, `${exact(cut)} characters between head and tail were not kept.`) : null);
  };
  const details = h("details", { class: "edit", open: opened.has(key) },
    h("summary", { "data-key": `edit-${view.session}-${edit.number}` },
      h("span", { class: "kind" }, kindName(edit.kind)),
      h("span", { class: "tool" }, edit.tool),
      h("span", { class: "turn" }, edit.turn === null ? "" : `turn ${edit.turn}`),
      h("span", { class: "size" }, `≈ ${tokens(edit.tokens_before)} → ${tokens(edit.tokens_after)}`),
      h("span", { class: "why" }, edit.reason)),
    h("div", { class: "halves" },
      h("div", {}, h("h3", {}, "Before"), h("p", { class: "hint" }, `≈ ${exact(edit.tokens_before)} tokens`), before),
      h("div", {}, h("h3", {}, view.observed ? "After, if it were sent" : "After"), h("p", { class: "hint" }, `≈ ${exact(edit.tokens_after)} tokens`),
        edit.after === null ? h("p", {}, "Nothing stands there now.") : pane(`What stands there now, edit ${edit.number}`, edit.after, `after-${view.session}-${edit.number}`))),
    h("p", { class: "hint" }, "Anchored to message ", h("code", {}, edit.at)));
  details.addEventListener("toggle", () => {
    if (!details.open) return opened.delete(key);
    opened.add(key);
    return show();
  });
  if (details.open) show();
  return details;
}

/** A text of the conversation in a box that scrolls by itself, by keyboard too. */
const pane = (label, text, key) => h("pre", { tabindex: "0", verbatim: true, role: "region", "aria-label": label, "data-key": key }, text);
