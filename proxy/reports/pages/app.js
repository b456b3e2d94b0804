// The frame: which page is shown, what the connection says, the mode of all, and the theme.

import { api, follow } from "./api.js";
import { fill, h, segmented } from "./dom.js";
import { ago } from "./format.js";
import { accuracyView } from "./views/accuracy.js";
import { healthView } from "./views/health.js";
import { savingsView } from "./views/savings.js";
import { sessionView } from "./views/session.js";
import { sessionsView } from "./views/sessions.js";

const VIEWS = { sessions: sessionsView, savings: savingsView, accuracy: accuracyView, health: healthView };
const AT_MOST_EVERY_MS = 1000;
/** What other workers and replicas did is no event of the process that this page is connected to: it is asked for. */
const AT_LEAST_EVERY_MS = 10_000;
const main = document.getElementById("main");

let view = null;
let visit = 0;

async function show() {
  const [name, id] = location.hash.replace(/^#\/?/, "").split("/");
  if (name === "main") return;
  const page = VIEWS[name] ? name : "sessions";
  const mine = ++visit;
  for (const link of document.querySelectorAll("nav[aria-label=Pages] a")) {
    if (link.hash === `#/${page}`) link.setAttribute("aria-current", id ? "true" : "page");
    else link.removeAttribute("aria-current");
  }
  const fresh = h("div", { class: "view" });
  main.setAttribute("aria-busy", "true");
  try {
    const found = id ? await sessionView(fresh, decodeURIComponent(id)) : await VIEWS[page](fresh);
    if (mine !== visit) return;
    view = found;
  } catch (error) {
    if (mine !== visit) return;
    view = { title: "Not shown", events: ["connected"], refresh: async () => show() };
    fill(fresh, h("h1", { tabindex: "-1" }, "Not shown"), h("p", { class: "empty" }, `${error.message}. `, h("a", { href: "#/sessions" }, "All sessions")));
  }
  fill(main, fresh);
  main.removeAttribute("aria-busy");
  document.title = `${view.title} · pruning-proxy`;
  if (mine > 1) main.querySelector("h1").focus({ preventScroll: true });
  if (mine > 1) scrollTo(0, 0);
}

let waiting = null;
let busy = false;

/** Draw the page anew soon, however many events ask for it. */
function soon() {
  waiting ??= setTimeout(async () => {
    waiting = null;
    if (busy) return soon();
    busy = true;
    // What cannot be asked now is asked at the next event.
    await view?.refresh().catch(() => {});
    busy = false;
  }, AT_MOST_EVERY_MS);
}

function happened(kind, fields) {
  if (kind === "mode" || kind === "connected") showMode().catch(() => {});
  const concerns = !view?.session || !fields.session || fields.session === view.session;
  if (kind === "lost" || (view?.events.includes(kind) && concerns)) soon();
}

async function showMode() {
  const { mode, configured } = await api.mode();
  fill(document.getElementById("mode"), segmented({
    legend: [h("span", { class: "sr" }, "All sessions: "), mode === configured ? "Mode" : `Mode (configured: ${configured})`],
    look: "inline",
    choices: [["off", "Off"], ["observe", "Observe"], ["prune", "Prune"]],
    value: mode,
    key: "mode",
    onchange: (value) => api.setMode(value === configured ? null : value).catch(showMode),
  }));
}

function showState(text, alive) {
  document.getElementById("live").classList.toggle("down", !alive);
  document.getElementById("live-text").textContent = text;
}

const THEMES = ["", "light", "dark"];
const themeButton = document.getElementById("theme");

function showTheme() {
  const theme = document.documentElement.dataset.theme ?? "";
  themeButton.textContent = `Theme: ${theme || "auto"}`;
}

themeButton.addEventListener("click", () => {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "") + 1) % THEMES.length];
  if (next) root.dataset.theme = next;
  else delete root.dataset.theme;
  localStorage.setItem("pruning-proxy-theme", next);
  showTheme();
});

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

setInterval(() => {
  for (const time of document.querySelectorAll("[data-ago]")) time.textContent = ago(Number(time.dataset.ago));
}, 15_000);

setInterval(() => {
  if (!document.hidden && view?.events.includes("call")) soon();
}, AT_LEAST_EVERY_MS);

addEventListener("hashchange", show);
showTheme();
show();
follow(happened, showState);
