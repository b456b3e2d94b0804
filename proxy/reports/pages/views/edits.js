// What stands in a conversation instead of what its client has: each edit's before and after, and why.

import { fill, h, pager, segmented } from "../dom.js";
import { exact, kindName, tokens } from "../format.js";

const PAGE = 10;
const view = { kind: "", at: 0, session: "" };
const opened = new Set();

/** The list, newest edit first, by kind if one is chosen. */
export function editsPart(found) {
  if (view.session !== found.session) Object.assign(view, { kind: "", at: 0, session: found.session });
  if (!found.known) return h("p", { class: "hint" }, "The store no longer has this conversation's plan; its next edit begins a new one.");
  if (!found.edits.length) return h("p", { class: "hint" }, "Nothing has been taken out of this conversation: every body went out as it came.");
  const all = found.edits.map((edit, at) => ({ ...edit, number: at + 1 })).reverse();
  const region = h("div", {});
  const draw = () => fill(region, pageOf(all, draw));
  draw();
  return region;
}

function pageOf(all, draw) {
  const kinds = [...new Set(all.map((edit) => edit.kind))];
  const chosen = view.kind ? all.filter((edit) => edit.kind === view.kind) : all;
  const shown = chosen.slice(view.at, view.at + PAGE);
  const saved = all.reduce((sum, edit) => sum + edit.saved_tokens, 0);
  const go = (at) => () => {
    view.at = at;
    draw();
  };
  return [
    h("p", {}, h("b", {}, `≈ ${exact(saved)} tokens`), ` ${saved < 0 ? "added" : "taken out"} of every request by the plan's ${exact(all.length)} ${all.length === 1 ? "edit" : "edits"}. The client's own history is untouched.`),
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

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

function editOf(edit) {
  const key = `${view.session}-${edit.number}`;
  const before = edit.before ?? null;
  const details = h("details", { class: "edit", open: opened.has(key) },
    h("summary", { "data-key": `edit-${key}` },
      h("span", { class: "kind" }, kindName(edit.kind)),
      h("span", { class: "tool" }, edit.tool),
      edit.turn === null ? null : h("span", { class: "hint" }, `turn ${edit.turn}`),
      h("span", { class: "size" }, `≈ ${tokens(edit.tokens_before)} → ${tokens(edit.tokens_after)}`),
      h("span", { class: "why" }, edit.reason)),
    h("div", { class: "halves" },
      h("div", {}, h("h3", {}, "Before"), h("p", { class: "hint" }, `≈ ${exact(edit.tokens_before)} tokens`),
        before === null ? h("p", {}, sentence(edit.before_note)) : h("pre", { tabindex: "0", verbatim: true, "aria-label": `What stood there, edit ${edit.number}` }, before)),
      h("div", {}, h("h3", {}, "After"), h("p", { class: "hint" }, `≈ ${exact(edit.tokens_after)} tokens`),
        edit.after === null ? h("p", {}, "Nothing stands there now.") : h("pre", { tabindex: "0", verbatim: true, "aria-label": `What stands there now, edit ${edit.number}` }, edit.after))),
    h("p", { class: "hint" }, "Anchored to message ", h("code", {}, edit.at)));
  details.addEventListener("toggle", () => (details.open ? opened.add(key) : opened.delete(key)));
  return details;
}
