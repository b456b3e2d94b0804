// node talk.mjs MODEL URL...: has the same talk at each base URL and prints what was heard there, as one JSON array.

import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";

import { MODELS } from "./models.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;

const tools = Object.fromEntries(
  ["lookup", "weather"].map((name) => [
    name,
    tool({
      description: name,
      inputSchema: jsonSchema({ type: "object", properties: { query: { type: "string" } } }),
      execute: async ({ query }) => `${name} found ${query}`,
    }),
  ]),
);

const call = ({ toolCallId, toolName, input }) => ({ toolCallId, toolName, input });

function plain(step) {
  return {
    text: step.text,
    reasoning: step.reasoningText ?? "",
    kinds: step.content.map((part) => part.type),
    calls: step.toolCalls.map(call),
    results: step.toolResults.map((result) => ({ ...call(result), output: result.output })),
    finish: step.finishReason,
    usage: step.usage,
    warnings: step.warnings ?? [],
    basis: step.response.headers?.["x-context-basis"] ?? null,
    session: step.response.headers?.["x-context-session"] ?? null,
  };
}

async function whole(request) {
  const { steps, totalUsage, response } = await generateText(request);
  return { steps: steps.map(plain), totalUsage, said: response.messages };
}

async function streamed(request) {
  let failure;
  const result = streamText({ ...request, onError: ({ error }) => (failure = error) });
  const parts = [];
  for await (const part of result.fullStream) parts.push(part.type);
  if (failure) throw failure;
  const steps = (await result.steps).map(plain);
  return { steps, totalUsage: await result.totalUsage, said: (await result.response).messages, parts };
}

// One conversation: a loop with tools, a plain turn, each of them whole and as a stream.
async function talk(settings) {
  const messages = [];
  const heard = [];
  for (const [content, ask] of [
    ["please call lookup and call weather", whole],
    ["please call lookup", streamed],
    ["thank you", whole],
    ["goodbye", streamed],
  ]) {
    messages.push({ role: "user", content });
    const answer = await ask({
      ...settings,
      system: "be brief",
      messages,
      tools,
      maxOutputTokens: 2000,
      maxRetries: 0,
      stopWhen: stepCountIs(4),
    });
    messages.push(...answer.said);
    heard.push(answer);
  }
  return heard;
}

const [model, ...urls] = process.argv.slice(2);
const heard = await Promise.all(urls.map((url) => talk(MODELS[model](url))));
process.stdout.write(JSON.stringify(heard));
