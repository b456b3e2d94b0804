"""What is asked of a page so that everybody can use it: axe-core's rules, and what no rule of its checks."""

from importlib.resources import files

AXE = files("axe_core_python").joinpath("axe.min.js")

_RUN = """
axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => violations
  .filter(({impact}) => impact === "serious" || impact === "critical" || impact === "moderate")
  .map(({id, impact, nodes}) => `${impact} ${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`))
"""

_CONTROLS = """
(() => {
  const shown = (e) => e.checkVisibility({visibilityProperty: true}) && !e.closest("dialog:not([open])");
  const all = [...document.querySelectorAll("a[href], button, input, textarea, summary, [tabindex='0']")];
  return all.filter((e) => shown(e) && !e.disabled && (e.type !== "radio" || e.checked));
})()
"""

SMALL_TARGETS = """
[...document.querySelectorAll("button, summary, .segmented label, textarea, input[type=range], header a, .sessions .who a")]
  .filter((e) => e.checkVisibility() && !e.closest("dialog") && !e.classList.contains("skip"))
  .filter((e) => { const box = e.getBoundingClientRect(); return box.height < 43.5 || box.width < 43.5; })
  .map((e) => `${e.tagName} ${e.textContent.slice(0, 40)} ${JSON.stringify(e.getBoundingClientRect())}`)
"""

OUTLINE = """
(() => {
  const levels = [...document.querySelectorAll("h1, h2, h3")].filter((e) => e.checkVisibility()).map((e) => Number(e.tagName[1]));
  const jumps = levels.filter((level, at) => at && level > levels[at - 1] + 1);
  return {
    ones: levels.filter((level) => level === 1).length,
    first: levels[0],
    jumps: jumps.length,
    mains: document.querySelectorAll("main").length,
    language: document.documentElement.lang,
  };
})()
"""

_STOP = """
(() => {
  const e = document.activeElement;
  if (!e || e === document.body) return null;
  const seen = e.type === "radio" ? e.nextElementSibling : e;
  const style = getComputedStyle(seen);
  window.stops ??= new Set();
  const again = stops.has(e);
  stops.add(e);
  return {again, ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2, what: e.outerHTML.slice(0, 120)};
})()
"""


async def axe(page):
    """Findings of axe-core, one line each."""
    if not await page.run("!!window.axe"):
        await page.run(AXE.read_text("utf-8") + ";0")
    return await page.run(_RUN)


async def walk(page, most=200):
    """Press Tab until the focus comes round; gives stops without a ring, and controls that were never reached."""
    await page.run("window.stops = new Set(); document.activeElement.blur(); scrollTo(0, 0)")
    ringless = []
    for _ in range(most):
        await page.press("Tab")
        stop = await page.run(_STOP)
        if stop is None or stop["again"]:
            break
        if not stop["ring"]:
            ringless.append(stop["what"])
    missed = await page.run(f"{_CONTROLS}.filter((e) => !stops.has(e)).map((e) => e.outerHTML.slice(0, 120))")
    in_order = await page.run(
        "[...stops].every((e, at, all) => !at || all[at - 1].compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING)"
    )
    return ringless, missed, in_order
