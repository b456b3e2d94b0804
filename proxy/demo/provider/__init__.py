"""A strict loopback provider: it counts, caches, refuses and answers as the real ones do. I/O.

asked.py       what every API module makes of a body: units to count and to cache, and what the script needs
answers.py     scripted answers: a recorded session's own, or a small deterministic echo
extractive.py  … and a summary, written without a model, where one is asked for
cache.py       the simulated prefix cache
app.py         the ASGI app and its hooks for tests; asgi.py its plain side
apis.py        one row an API: path → what is done there
chat.py  responses.py  messages.py  gemini.py
               one module an API: prompt, answer, stream, and its rules, unless they stand beside it
               in chat_rules.py, messages_rules.py, responses_items.py

It reads requests by itself, without the dialects: a mistake of theirs would go unnoticed otherwise.
"""

from proxy.demo.provider.answers import Recording, echo, recorded
from proxy.demo.provider.app import Provider
from proxy.demo.provider.asgi import Received
from proxy.demo.provider.asked import Answer, Asked, Call, Refused, Rules

__all__ = ["Answer", "Asked", "Call", "Provider", "Received", "Recording", "Refused", "Rules", "echo", "recorded"]
