"""Headless Chromium, for tests of the pages that pinfold writes.

The browser reads and writes messages of the DevTools protocol on two pipes (``--remote-debugging-pipe``), so that no
library is needed: each message is JSON with a NUL byte at its end.
"""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: The browser of Debian, and of others.
NAMES = ("chromium", "chromium-browser", "google-chrome")

#: What a browser without a display and a network needs. Its sandbox does not work for root.
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def missing() -> str | None:
    """Return why there is no browser, or nothing."""
    if any(shutil.which(name) for name in NAMES):
        return None
    return "Chromium is not installed; `make setup` installs it"


class Page:
    """A page that the browser shows."""

    def __init__(self, browser: "Browser", session: str) -> None:
        """Listen to everything that the page reports."""
        self._browser = browser
        self._session = session
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol."""
        return self._browser.call(method, self._session, **parameters)

    def open(self, file: Path, *, width: int, dark: bool = False, script: bool = True) -> None:
        """Open a file in a window of this width."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self._browser.events.clear()
        self.call("Page.navigate", url=file.resolve().as_uri())
        self._browser.wait_for("Page.loadEventFired")

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key and release it."""
        code = {"ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35}[key]
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def screenshot(self, *, whole: bool = False) -> bytes:
        """Return the window, or the whole page, as PNG."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        return base64.b64decode(data)

    def pdf(self) -> bytes:
        """Return the printed page."""
        return base64.b64decode(self.call("Page.printToPDF")["data"])

    def complaints(self) -> list[str]:
        """Return errors and warnings of the page since it was opened, among them everything that its policy refused."""
        found = []
        for event in self._browser.events:
            if event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] in ("error", "warning"):
                found.append(event["params"]["entry"]["text"])
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(event["params"]))
        return found

    def requests(self) -> list[str]:
        """Return the addresses that the page has requested, itself included."""
        events = [one for one in self._browser.events if one["method"] == "Network.requestWillBeSent"]
        return [one["params"]["request"]["url"] for one in events]


class Browser:
    """The running browser."""

    def __init__(self, reading: int, writing: int) -> None:
        """Use these pipes."""
        self._reading = os.fdopen(reading, "rb")
        self._writing = os.fdopen(writing, "wb", buffering=0)
        self._number = 0
        self._rest = b""
        #: The events since the last page was opened.
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        """Call a method and return its result. Events that arrive before it are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self._writing.write(json.dumps(message).encode() + b"\0")
        while (answer := self._message()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def wait_for(self, event: str) -> None:
        """Return when an event has arrived since the last page was opened."""
        while not any(one["method"] == event for one in self.events):
            self.events.append(self._message())

    def page(self) -> Page:
        """Open an empty page."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._reading.fileno(), 1 << 20)
            assert more, "the browser has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def close(self) -> None:
        """Close the pipes, which ends the browser."""
        self._writing.close()
        self._reading.close()


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Run a browser whose profile is in this folder."""
    name = next(found for found in map(shutil.which, NAMES) if found)
    to_browser, from_browser = os.pipe(), os.pipe()
    # The browser uses the descriptors 3 and 4.
    redirect = f'exec "$@" 3<&{to_browser[0]} 4>&{from_browser[1]}'
    command = ["bash", "-c", redirect, "bash", name, *OPTIONS, f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen(
        command,
        pass_fds=(to_browser[0], from_browser[1]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"HOME": str(folder)},
    )
    os.close(to_browser[0])
    os.close(from_browser[1])
    running = Browser(from_browser[0], to_browser[1])
    try:
        yield running
    finally:
        running.close()
        process.terminate()
        process.wait(timeout=60)
