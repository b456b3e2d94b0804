// Building and replacing parts of the page. Text only ever becomes text nodes: nothing from outside is read as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element. `props`: attributes; `onclick`… are listeners; `style` is an object; false, null and undefined are left out; `verbatim`: text stays as it is. */
export const h = (tag, props, ...children) => build(document.createElement(tag), props, children);

/** The same for SVG. */
export const s = (tag, props, ...children) => build(document.createElementNS(SVG, tag), props, children);

function build(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === false || value === null || value === undefined || name === "verbatim") continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, entry] of Object.entries(value)) element.style.setProperty(key, entry);
    else if (name === "value" && "value" in element) element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  // An estimate's sign never stands alone at a line's end.
  const set = (child) => (typeof child === "string" && !props?.verbatim ? child.replaceAll("≈ ", "≈\u00a0") : child);
  element.append(...present(children).map(set));
  return element;
}

/** Children without those left out. */
const present = (children) => children.flat(3).filter((child) => child !== null && child !== undefined && child !== false);

/** Replace what stands in `region`. Whatever had the focus and comes back with the same data-key has it again. */
export function fill(region, ...children) {
  const active = document.activeElement;
  const key = active && region.contains(active) ? active.dataset.key : null;
  region.replaceChildren(...present(children));
  if (key) region.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

/** Draws with `draw(value)` only when the value has changed, so that a live update disturbs nobody. */
export function once(region, draw) {
  let last;
  return (value) => {
    const now = JSON.stringify(value);
    if (now === last) return;
    last = now;
    fill(region, draw(value));
  };
}

/** A button that puts `text` on the clipboard and says so. */
export function copyButton(text, label, key) {
  const button = h("button", { type: "button", class: "quiet", "aria-label": label, "data-key": key }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = (await copied(text)) ? "Copied" : "Press Ctrl+C";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  return button;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Plain HTTP from another machine has no clipboard API: the older way still works there.
    const area = h("textarea", { class: "sr", value: text, "aria-hidden": "true" });
    const active = document.activeElement;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    active?.focus();
    return done;
  }
}

let numbers = 0;

/** Native radio buttons drawn as one switch. `choices`: [value, text] pairs. `look`: bare (legend not shown) | inline | above. */
export function segmented({ legend, choices, value, onchange, key, look = "bare" }) {
  const name = `segmented-${++numbers}`;
  return h(
    "fieldset",
    { class: `segmented ${look}` },
    h("legend", { class: look === "bare" ? "sr" : null }, legend),
    h(
      "div",
      { class: "options" },
      choices.map(([one, text]) => {
        const input = h("input", { type: "radio", name, value: one, "data-key": `${key}-${one}`, onchange: () => onchange(one) });
        input.checked = one === value;
        return h("label", {}, input, h("span", {}, text));
      }),
    ),
  );
}

/** A table in a box that scrolls by itself. `columns`: {title, cell(row), number}; the first column heads its row. */
export function table({ caption, columns, rows, empty = "Nothing yet." }) {
  if (!rows.length) return h("p", { class: "hint" }, empty);
  const cell = (column, row, first) =>
    h(first ? "th" : "td", { scope: first ? "row" : null, class: column.number ? "num" : null }, column.cell(row));
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption, "data-key": `table-${caption}` },
    h(
      "table",
      {},
      h("caption", { class: "sr" }, caption),
      h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: c.number ? "num" : null }, c.title)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, columns.map((column, at) => cell(column, row, at === 0))))),
    ),
  );
}

/** Earlier and later pages. */
export function pager({ label, previous, next, text }) {
  if (!previous && !next) return null;
  const button = (go, words, key) =>
    h("button", { type: "button", class: "quiet", disabled: !go, onclick: go ?? null, "data-key": `${label}-${key}` }, words);
  return h("nav", { class: "pager", "aria-label": label }, button(previous, "Newer", "newer"), h("span", {}, text), button(next, "Older", "older"));
}

/** A named number. */
export const fact = (name, value, note, kind) =>
  h("div", { class: "fact" }, h("dt", {}, name), h("dd", { class: kind || null }, value), note ? h("dd", { class: "note" }, note) : null);

/** A part of a page with its heading. */
export const section = (id, title, ...children) =>
  h("section", { "aria-labelledby": id }, h("h2", { id }, title), ...children);
