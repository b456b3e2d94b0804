"""A strict loopback provider: it counts, caches, refuses and answers as the real ones do. I/O.

asked.py    what every API module makes of a body: units to count and to cache, and what the script needs
answers.py  scripted answers: a recorded session's own, or a small deterministic echo
cache.py    the simulated prefix cache
app.py      the ASGI app and its hooks for tests
chat.py …   one module an API: structure rules, prompt, answer, stream; one row each in `apis.py`

Nothing here knows the proxy: tests and the demo stand it behind one.
"""

from proxy.demo.provider.answers import Recording, echo, recorded
from proxy.demo.provider.app import Provider
from proxy.demo.provider.asgi import Received
from proxy.demo.provider.asked import Answer, Asked, Call, Refused, Rules

__all__ = ["Answer", "Asked", "Call", "Provider", "Received", "Recording", "Refused", "Rules", "echo", "recorded"]
