// Messages that wait for a conversation's next call.

import { api } from "../api.js";
import { fill, h, once } from "../dom.js";
import { ago } from "../format.js";

/** The form and the list; `refresh` asks for the list. */
export function queuePart(id) {
  const text = h("textarea", { id: "say", rows: 3, maxlength: 100_000, required: true, "aria-describedby": "say-note" });
  const said = h("p", { role: "status", class: "hint" });
  const waiting = h("div", {});
  const draw = once(waiting, listOf);

  const refresh = async () => draw((await api.queue(id)).queue);

  const attempt = async (action, done) => {
    try {
      said.textContent = done(await action());
    } catch (error) {
      said.textContent = `Not done: ${error.message}`;
    }
    await refresh();
  };

  function listOf(messages) {
    if (!messages.length) return h("p", { class: "hint" }, "No message waits.");
    return h("ol", { class: "waiting" }, messages.map((message) =>
      h("li", {},
        h("span", { class: "said", verbatim: true }, message.text),
        h("span", { class: "hint" }, h("time", { "data-ago": message.at, datetime: new Date(message.at * 1000).toISOString() }, ago(message.at))),
        h("button", {
          type: "button",
          class: "quiet",
          "data-key": `cancel-${message.id}`,
          "aria-label": `Cancel message ${message.position}`,
          onclick: async () => {
            await attempt(() => api.cancel(id, message.id), ({ cancelled }) => (cancelled ? "Cancelled." : "Too late: it has been said already."));
            // The button is gone: its neighbour, or the field, takes the focus.
            (waiting.querySelector("button") ?? text).focus();
          },
        }, "Cancel"))));
  }

  const form = h("form", {
    onsubmit: (event) => {
      event.preventDefault();
      if (!text.value.trim()) return;
      attempt(() => api.say(id, text.value), ({ position }) => {
        text.value = "";
        return position === 1 ? "Queued: it goes out with the next call." : `Queued at place ${position}.`;
      });
    },
  },
  h("label", { for: "say" }, "Message"), text,
  h("p", { id: "say-note", class: "hint" }, "Said as the user at this conversation's next call, and part of it from then on."),
  h("button", { type: "submit", "data-key": "say-send" }, "Queue message"), said);

  return { element: h("div", { class: "queue" }, form, waiting), refresh };
}
