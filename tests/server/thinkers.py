"""A model that thinks before every call, and clients that send everything back but what it thought."""

import json
from itertools import count

from proxy.demo.provider import Answer, Call

STEPS = 3
_calls = count()


def thinks(asked, headers):
    """Three calls for each of the user's requests, each with a thought, then a thoughtful answer."""
    number = asked.assistants
    if number % (STEPS + 1) < STEPS:
        call = Call(call_id=f"call{next(_calls)}", name="look", arguments=json.dumps({"at": number}))
        return Answer(calls=(call,), reasoning=f"thought number {number}")
    return Answer(text=f"answer {number}", reasoning=f"thought number {number}")


class ChatClient:
    """Chat completions; `drops`: keys of assistant messages (and of calls) that it loses."""

    def __init__(self, house, model, *, drops=(), stream=False, upstream="openai"):
        self.house, self.model, self.drops, self.stream = house, model, drops, stream
        self.path = f"/up/{upstream}/v1/chat/completions"
        self.history = []
        self.statuses = []

    async def say(self, text, **fields):
        """One user's turn, to its end."""
        self.history.append({"role": "user", "content": text})
        while True:
            body = {"model": self.model, "messages": self.history, "stream": self.stream, **fields}
            answer = await self.house.http.post(self.path, json=body, headers={"authorization": "Bearer k1"})
            self.statuses.append(answer.status_code)
            if answer.status_code != 200:
                return answer
            message = _streamed(answer.text) if self.stream else answer.json()["choices"][0]["message"]
            kept = {key: value for key, value in message.items() if key not in self.drops}
            calls = kept.get("tool_calls") or []
            kept["tool_calls"] = [{k: v for k, v in call.items() if k not in self.drops} for call in calls]
            if not calls:
                del kept["tool_calls"]
            self.history.append(kept)
            if not calls:
                return answer
            self.history += [{"role": "tool", "tool_call_id": call["id"], "content": "found"} for call in calls]


def _streamed(text):
    message = {"role": "assistant", "content": None, "tool_calls": []}
    for line in text.split("\n"):
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            delta = choice["delta"]
            for name in ("content", "reasoning_content"):
                if delta.get(name):
                    message[name] = (message.get(name) or "") + delta[name]
            for call in delta.get("tool_calls") or ():
                if "id" in call:
                    message["tool_calls"].append({key: value for key, value in call.items() if key != "index"})
                else:
                    message["tool_calls"][call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    return message


class MessagesClient:
    """Anthropic Messages; `drops`: whether it loses thinking blocks."""

    def __init__(self, house, model, *, drops=True, path="/v1/messages", **fields):
        self.house, self.model, self.drops, self.path, self.fields = house, model, drops, path, fields
        self.history = []
        self.statuses = []

    async def say(self, text, *, results=lambda _: "found"):
        self.history.append({"role": "user", "content": text})
        while True:
            body = {"model": self.model, "max_tokens": 500, "messages": self.history, **self.fields}
            answer = await self.house.http.post(self.path, json=body, headers={"x-api-key": "k1"})
            self.statuses.append(answer.status_code)
            if answer.status_code != 200:
                return answer
            blocks = [block for block in answer.json()["content"] if not (self.drops and block["type"] == "thinking")]
            self.history.append({"role": "assistant", "content": blocks})
            calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
            if not calls:
                return answer
            content = results(len(self.history))
            found = [{"type": "tool_result", "tool_use_id": one, "content": content} for one in calls]
            self.history.append({"role": "user", "content": found})


class GeminiClient:
    """generateContent; loses every signature."""

    def __init__(self, house, model):
        self.house = house
        self.path = f"/v1beta/models/{model}:generateContent"
        self.history = []
        self.statuses = []

    async def say(self, text):
        self.history.append({"role": "user", "parts": [{"text": text}]})
        while True:
            answer = await self.house.http.post(
                self.path, json={"contents": self.history}, headers={"x-goog-api-key": "k1"}
            )
            self.statuses.append(answer.status_code)
            if answer.status_code != 200:
                return answer
            content = answer.json()["candidates"][0]["content"]
            parts = [
                {key: value for key, value in part.items() if key != "thoughtSignature"}
                for part in content["parts"]
                if not part.get("thought")
            ]
            self.history.append({"role": "model", "parts": parts})
            calls = [part["functionCall"] for part in parts if "functionCall" in part]
            if not calls:
                return answer
            found = [{"functionResponse": {"name": call["name"], "response": {"output": "found"}}} for call in calls]
            self.history.append({"role": "user", "parts": found})


class ResponsesClient:
    """Responses without storage; loses reasoning items, keeps ids."""

    def __init__(self, house, model, *, keeps_ids=True):
        self.house, self.model, self.keeps_ids = house, model, keeps_ids
        self.history = []
        self.statuses = []

    async def say(self, text):
        self.history.append({"role": "user", "content": text})
        while True:
            body = {"model": self.model, "input": self.history, "store": False}
            answer = await self.house.http.post("/v1/responses", json=body, headers={"authorization": "Bearer k1"})
            self.statuses.append(answer.status_code)
            if answer.status_code != 200:
                return answer
            items = [item for item in answer.json()["output"] if item["type"] != "reasoning"]
            dropped = () if self.keeps_ids else ("id",)
            items = [{key: value for key, value in item.items() if key not in dropped} for item in items]
            self.history += items
            calls = [item["call_id"] for item in items if item["type"] == "function_call"]
            if not calls:
                return answer
            self.history += [{"type": "function_call_output", "call_id": one, "output": "found"} for one in calls]
