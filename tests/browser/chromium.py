"""A real Chromium, driven over its DevTools protocol: as much of a client as these tests need."""

import asyncio
import base64
import contextlib
import itertools
import json
import shutil
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

BINARY = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE_S = 30.0
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-port=0",
)
_KEYS = {
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    " ": (32, " "),
    "Escape": (27, ""),
    "ArrowRight": (39, ""),
    "ArrowLeft": (37, ""),
    "Home": (36, ""),
}


class Page:
    """One tab."""

    def __init__(self, socket):
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting = {}
        self.complaints = []
        """Errors and warnings that the page gave: console, exceptions, security policy, failed loads."""
        self._reading = asyncio.ensure_future(self._read())

    async def send(self, method, **params):
        """Call a method; gives its result."""
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        return await asyncio.wait_for(future, PATIENCE_S)

    async def _read(self):
        with contextlib.suppress(ConnectionClosed):
            async for text in self._socket:
                message = json.loads(text)
                if "id" in message:
                    self._take(self._waiting.pop(message["id"]), message)
                else:
                    self._note(message["method"], message["params"])

    def _take(self, future, message):
        if future.done():
            return
        if "error" in message:
            future.set_exception(RuntimeError(message["error"]["message"]))
        else:
            future.set_result(message["result"])

    def _note(self, method, params):
        if method == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([one.get("value", one.get("description")) for one in params["args"]]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    async def run(self, script):
        """The JSON value of an expression, awaited if it is a promise."""
        found = await self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"].get("exception", {}).get("description", script))
        return found["result"].get("value")

    async def until(self, script, seconds=PATIENCE_S):
        """Wait until an expression is truthy."""
        try:
            async with asyncio.timeout(seconds):
                while not await self.run(f"!!({script})"):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            text = await self.run("document.body.innerText")
            raise AssertionError(f"never true: {script}\n{self.complaints}\n{text[:2000]}") from None

    async def open(self, url):
        """Go somewhere and wait for the document; a new document even where only the fragment differs."""
        await self.send("Page.navigate", url="about:blank")
        await self.send("Page.navigate", url=url)
        await self.until(
            f"location.href.startsWith({json.dumps(url.partition('#')[0])}) && document.readyState === 'complete'"
        )

    async def size(self, width, height=900, *, dark=False):
        """The viewport, in CSS pixels, and what the system prefers."""
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send(
            "Emulation.setEmulatedMedia", features=[scheme, {"name": "prefers-reduced-motion", "value": "reduce"}]
        )

    async def press(self, key, *, shift=False):
        """Press a key, as the keyboard would."""
        code, text = _KEYS[key]
        same = {
            "key": key,
            "code": key if key != " " else "Space",
            "windowsVirtualKeyCode": code,
            "modifiers": 8 * shift,
        }
        await self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **same)
        await self.send("Input.dispatchKeyEvent", type="keyUp", **same)

    async def type(self, text):
        """Type into whatever has the focus."""
        await self.send("Input.insertText", text=text)

    async def shoot(self, path):
        """A picture of the whole page, however long."""
        size = (await self.send("Page.getLayoutMetrics"))["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        found = await self.send("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        Path(path).write_bytes(base64.b64decode(found["data"]))


@asynccontextmanager
async def chromium():
    """A browser of its own, with one empty tab."""
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            BINARY,
            *_FLAGS,
            f"--user-data-dir={profile}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            port = await _port(Path(profile, "DevToolsActivePort"), process)
            async with connect(f"ws://127.0.0.1:{port[0]}{port[1]}", max_size=None) as browser:
                root = Page(browser)
                targets = await root.send("Target.getTargets")
                target = next(one["targetId"] for one in targets["targetInfos"] if one["type"] == "page")
                async with connect(f"ws://127.0.0.1:{port[0]}/devtools/page/{target}", max_size=None) as socket:
                    page = Page(socket)
                    for domain in ("Page", "Runtime", "Log"):
                        await page.send(f"{domain}.enable")
                    yield page
                await root.send("Browser.close")
                await asyncio.wait_for(process.wait(), PATIENCE_S)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _port(file, process):
    async with asyncio.timeout(PATIENCE_S):
        while not file.exists() or not file.read_text().strip():
            assert process.returncode is None, "the browser ended at once"
            await asyncio.sleep(0.05)
    lines = file.read_text().split("\n")
    return int(lines[0]), lines[1]
