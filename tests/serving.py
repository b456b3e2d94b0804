"""Real servers on loopback, in the test's own event loop: `async with serving(app) as base_url`."""

from proxy.demo.serving import serving

__all__ = ["serving"]
