// Asking the control plane. The admin token lives in this tab's sessionStorage and travels in a header, never in a URL.

const TOKEN = "pruning-proxy-admin-token";
const ROOT = new URL("./", document.baseURI);

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function headers(more) {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { ...more, authorization: `Bearer ${token}` } : { ...more };
}

async function call(path, options = {}) {
  for (;;) {
    const answer = await fetch(new URL(path, ROOT), { ...options, headers: headers(options.headers), cache: "no-store" });
    if (answer.status === 401) {
      await askToken(sessionStorage.getItem(TOKEN) !== null);
      continue;
    }
    if (answer.ok || answer.status === 503) return answer;
    const told = await answer.json().catch(() => null);
    throw new Refused(answer.status, told?.error?.message ?? `HTTP ${answer.status}`);
  }
}

async function json(path, options) {
  const answer = await call(path, options);
  const value = await answer.json();
  if (value?.error?.message) throw new Refused(answer.status, value.error.message);
  return value;
}

const send = (method, path, body) =>
  json(path, { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

const of = (session) => `api/sessions/${encodeURIComponent(session)}`;

export const api = {
  sessions: (limit, offset, find) => json(`api/sessions?limit=${limit}&offset=${offset}${find ? `&find=${encodeURIComponent(find)}` : ""}`),
  session: (id, limit, before) => json(`${of(id)}?limit=${limit}${before ? `&before=${before}` : ""}`),
  context: (id) => json(`${of(id)}/context`),
  edits: (id) => json(`${of(id)}/edits`),
  edit: (id, number) => json(`${of(id)}/edits/${number}`),
  queue: (id) => json(`${of(id)}/queue`),
  say: (id, text) => send("POST", `${of(id)}/queue`, { text }),
  cancel: (id, message) => json(`${of(id)}/queue/${encodeURIComponent(message)}`, { method: "DELETE" }),
  mode: () => json("api/mode"),
  setMode: (mode, session = "") => send("PUT", "api/mode", { mode, session }),
  savings: (hours) => json(`api/savings?hours=${hours}`),
  accuracy: (hours) => json(`api/accuracy?hours=${hours}`),
  dashboard: (hours) => json(`api/dashboard?hours=${hours}`),
};

let asking = null;

/** The dialog, once, however many requests wait for it. */
function askToken(wrong) {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("token");
    const input = document.getElementById("token-value");
    document.getElementById("token-error").textContent = wrong ? "That token was refused." : "";
    input.value = "";
    dialog.oncancel = (event) => event.preventDefault();
    dialog.onclose = () => {
      sessionStorage.setItem(TOKEN, input.value.trim());
      input.value = "";
      asking = null;
      resolve();
    };
    dialog.showModal();
  });
  return asking;
}

/** Events for ever: `on(kind, fields)`, and `state(text, alive)` whenever the connection changes. */
export async function follow(on, state) {
  let open = new AbortController();
  // A page that the browser keeps for the way back would keep its connection, too, of the few that there are.
  addEventListener("pagehide", () => open.abort());
  for (let wait = 1; ; wait = Math.min(wait * 2, 15)) {
    open = new AbortController();
    try {
      const answer = await call("api/events", { signal: open.signal });
      if (!answer.ok) throw new Refused(answer.status, "no event stream");
      state("Live", true);
      wait = 0.5;
      on("connected", {});
      for await (const [kind, fields] of read(answer.body)) on(kind, fields);
    } catch {
      // Whatever it was, trying again is the answer.
    }
    state("Reconnecting", false);
    await new Promise((resolve) => setTimeout(resolve, wait * 1000));
  }
}

// EventSource cannot send a header, hence by hand: events end with an empty line, comments start with a colon.
async function* read(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const lines = event.split("\n");
      const kind = lines.find((line) => line.startsWith("event: "))?.slice(7);
      const data = lines.find((line) => line.startsWith("data: "))?.slice(6);
      if (kind && data) yield [kind, JSON.parse(data)];
    }
  }
}
