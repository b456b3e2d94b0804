// One model of the SDK for each way to speak to a provider: base URL without a path -> model and its options.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

// Google's calls have no ids on the wire; the SDK draws them, here in order so that two runs agree.
function counted() {
  let number = 0;
  return () => `id-${number++}`;
}

const openai = (url) => createOpenAI({ baseURL: `${url}/v1`, apiKey: "sk-test" });

export const MODELS = {
  chat: (url) => ({ model: openai(url).chat("gpt-4o") }),
  compatible: (url) => ({
    model: createOpenAICompatible({ name: "house", baseURL: `${url}/v1`, apiKey: "sk-test", includeUsage: true })(
      "demo-model",
    ),
  }),
  // The SDK's own default: later steps name earlier items by their ids.
  responses: (url) => ({ model: openai(url).responses("gpt-4o") }),
  "responses-unstored": (url) => ({
    model: openai(url).responses("gpt-5"),
    providerOptions: { openai: { store: false, reasoningSummary: "auto" } },
  }),
  anthropic: (url) => ({
    model: createAnthropic({ baseURL: `${url}/v1`, apiKey: "sk-ant-test" })("claude-sonnet-4-5"),
  }),
  "anthropic-thinking": (url) => ({
    model: createAnthropic({ baseURL: `${url}/v1`, apiKey: "sk-ant-test" })("claude-sonnet-4-5"),
    providerOptions: { anthropic: { thinking: { type: "enabled", budgetTokens: 1024 } } },
  }),
  google: (url) => ({
    model: createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey: "test-key", generateId: counted() })(
      "gemini-2.5-flash",
    ),
  }),
};
