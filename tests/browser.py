"""A headless Chromium, spoken to over a pipe: what a page loads, logs, and how wide it is."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from select import select
from typing import NamedTuple

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Addresses without a network: files, data inside of a page, and what scripts make themselves.
LOCAL = ("file:", "data:", "blob:", "about:", "chrome:")


def find_chromium():
    """The path of a Chromium, None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Seen(NamedTuple):
    """What a page did: messages of errors, addresses elsewhere, and pixels that overflow."""

    errors: list
    requests: list
    overflow: int


class Browser:
    """A Chromium of its own profile, for as long as the ``with`` lasts."""

    def __enter__(self):
        self.profile = tempfile.mkdtemp()
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()
        self.reader, self.writer = read_here, write_here
        command = [
            find_chromium(),
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={self.profile}",
        ]
        # The browser reads commands from 3 and writes events to 4.
        script = f'exec 3<&{read_there} 4>&{write_there}; exec "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(read_there, write_there),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_there)
        os.close(write_there)
        self.buffer, self.number, self.events, self.session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=30)
        os.close(self.reader)
        os.close(self.writer)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, **parameters):
        """Result of a command; events that come before it are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.events.append(answer)

    def _next(self, seconds=120.0):
        """The next message, None after so many seconds without one."""
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            ready, _, _ = select([self.reader], [], [], max(end - time.monotonic(), 0.0))
            if not ready:
                raise TimeoutError("the browser says nothing")
            read = os.read(self.reader, 1 << 16)
            assert read, "the browser has ended"
            self.buffer += read
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def open(self, path, width, dark=False, height=900):
        """Load a page of a file, and tell what it did."""
        scheme = "dark" if dark else "light"
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.events.clear()
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())
        # Scripts that wait for the load have their turn.
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        turn = f"new Promise(done => setTimeout(() => done({wide}), 50))"
        answer = self.call("Runtime.evaluate", expression=turn, awaitPromise=True)
        return Seen(self._errors(), self._requests(), answer["result"]["value"])

    def screenshot(self, path, whole=True):
        """Write a picture of the page."""
        import base64

        picture = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(picture["data"]))

    def _errors(self):
        found = []
        for event in self.events:
            said = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(said["exceptionDetails"].get("exception", said)))
            if event.get("method") == "Log.entryAdded" and said["entry"]["level"] == "error":
                found.append(f"{said['entry']['text']} {said['entry'].get('url', '')}")
            if event.get("method") == "Runtime.consoleAPICalled" and said["type"] == "error":
                found.append(str(said["args"]))
        return found

    def _requests(self):
        sent = [e["params"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        addresses = {said["request"]["url"] for said in sent}
        return sorted(url for url in addresses if not url.startswith(LOCAL))
