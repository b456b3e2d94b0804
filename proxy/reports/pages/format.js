// Numbers, money and times for people. What is estimated carries ≈; what is not known is a dash.

const NONE = "–";
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const MINUS = "−";

const signed = (text, value) => (value < 0 ? MINUS + text : text);

/** Tokens in full: 12,345. */
export const exact = (n) => (n === null || n === undefined ? NONE : signed(whole.format(Math.abs(n)), n));

/** Tokens, short: 950, 12.3k, 1.25M. */
export function tokens(n) {
  if (n === null || n === undefined) return NONE;
  const size = Math.abs(n);
  if (size < 1000) return signed(String(Math.round(size)), n);
  if (size < 99_950) return signed(`${trim((size / 1000).toFixed(1))}k`, n);
  if (size < 999_500) return signed(`${Math.round(size / 1000)}k`, n);
  return signed(`${trim((size / 1e6).toFixed(2))}M`, n);
}

const trim = (text) => text.replace(/\.?0+$/, "");

/** An estimate of tokens. */
export const about = (n) => (n === null || n === undefined ? NONE : `≈ ${tokens(n)}`);

/** US dollars with a minus sign where negative; cents get as many places as they need. */
export function money(n) {
  if (n === null || n === undefined) return NONE;
  const size = Math.abs(n);
  const places = size === 0 || size >= 1 ? 2 : size >= 0.1 ? 3 : 4;
  if (size > 0 && size < 0.00005) return signed("<$0.0001", n);
  return signed(`$${size.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places })}`, n);
}

/** Labels for the marks of a money axis that lie `step` apart: all with the same places. */
export function moneyMarks(step) {
  const digits = String(Number(step.toPrecision(3))).split(".")[1]?.length ?? 0;
  const places = Math.max(digits, step < 1 ? 2 : 0);
  return (n) => signed(`$${Math.abs(n).toFixed(places)}`, n);
}

/** Money as a difference: + or −. */
export const gain = (n) => (n > 0 ? `+${money(n)}` : money(n));

/** The class of a difference. */
export const tone = (n) => (n < 0 ? "loss" : n > 0 ? "gain" : "");

/** A percentage; `sign` writes + for positive ones. */
export function percent(n, { places = 1, sign = false } = {}) {
  if (n === null || n === undefined) return NONE;
  const text = `${Math.abs(n).toFixed(places)} %`;
  if (!Number.parseFloat(text)) return text;
  return n < 0 ? MINUS + text : sign && n > 0 ? `+${text}` : text;
}

/** Milliseconds. */
export function duration(ms) {
  if (ms === null || ms === undefined) return NONE;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** How long ago, from Unix seconds. */
export function ago(at) {
  const seconds = Math.max(0, Date.now() / 1000 - at);
  if (seconds < 10) return "just now";
  if (seconds < 60) return `${Math.round(seconds)} s ago`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86_400)} d ago`;
}

/** Date and time of day, from Unix seconds. */
export const moment = (at) =>
  new Date(at * 1000).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** A label for a time axis whose marks lie `step` seconds apart. */
export function clock(at, step) {
  const date = new Date(at * 1000);
  if (step >= 86_400) return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  const options = { hour: "2-digit", minute: "2-digit", ...(step < 60 ? { second: "2-digit" } : {}) };
  return date.toLocaleTimeString("en-GB", options);
}

/** 1 call, 2 calls. */
export const count = (n, one, many = `${one}s`) => `${whole.format(n)} ${n === 1 ? one : many}`;

/** What a session is called: the client's own name, else the beginning of its id. */
export const nameOf = (session) => session.label || shortId(session.session);

export const shortId = (id) => (id.length > 18 ? `${id.slice(0, 14)}…` : id);

/** What the edits of each kind do. */
export const KINDS = {
  clear: "cleared",
  repeat: "repeat → reference",
  cap: "capped",
  ansi: "terminal codes",
  collapse: "collapsed",
  summarise: "summary",
  insert: "queued message",
  strip: "reasoning out",
  restore: "reasoning back",
};

export const kindName = (kind) => KINDS[kind] ?? kind;

/** Edits by kind in one line. */
export const editsLine = (edits) =>
  Object.entries(edits ?? {})
    .map(([kind, n]) => `${n} ${kindName(kind)}`)
    .join(", ");
