"""Firefox by Marionette, its own protocol over a socket: Playwright's Firefox is another build than Debian's."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Self

PREFERENCES = {
    "marionette.port": 0,  # a free one, which the profile then names
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "ui.prefersReducedMotion": 1,  # without it every move is a flight
    "webgl.force-enabled": True,  # in software, too
}
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # what the protocol calls one
SHIFT = "\ue008"
# Errors of pages, which a script of the page would hear of too late.
ERRORS = """return Services.console.getMessageArray()
    .filter((m) => m instanceof Ci.nsIScriptError && m.sourceName.startsWith('file:') && !(m.flags & m.warningFlag))
    .map((m) => m.errorMessage)"""


def program() -> str | None:
    """Where Firefox is, if it is there."""
    return os.environ.get("HOROBALL_FIREFOX") or shutil.which("firefox-esr") or shutil.which("firefox")


class Screen:
    """A screen in memory, with OpenGL in software: without one Firefox has no WebGL."""

    def __init__(self) -> None:
        read, write = os.pipe()
        command = ["Xvfb", "-displayfd", str(write), "-screen", "0", "1400x1000x24", "-nolisten", "tcp"]
        silent = subprocess.DEVNULL
        self._process = subprocess.Popen(command, pass_fds=[write], stdout=silent, stderr=silent)
        os.close(write)
        with os.fdopen(read) as told:
            self.name = f":{told.readline().strip()}"

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(20)


class Firefox:
    """One window of Firefox, headless if no screen is named.

    Commands are those of the WebDriver standard; a message is a list of its kind, number, name and arguments.
    """

    def __init__(self, found: str, profile: Path, screen: str | None = None, **more: Any) -> None:
        lines = (f"user_pref({json.dumps(k)}, {json.dumps(v)});\n" for k, v in (PREFERENCES | more).items())
        (profile / "user.js").write_text("".join(lines))
        command = [found, "--marionette", "--remote-allow-system-access", "--no-remote", "--profile", str(profile)]
        about = {"LIBGL_ALWAYS_SOFTWARE": "1"} | ({} if screen is None else {"DISPLAY": screen})
        self._process = subprocess.Popen(
            command + ["--headless"] * (screen is None),
            env=os.environ | about,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._number = 0
        self._socket = socket.create_connection(("127.0.0.1", self._port(profile)), timeout=60)
        self._answers = self._socket.makefile("rb")
        self._next()  # it greets
        self.send("WebDriver:NewSession", capabilities={})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.send("Marionette:Quit", flags=["eForceQuit"])
        self._answers.close()
        self._socket.close()
        self._process.wait(30)

    def _port(self, profile: Path) -> int:
        for _ in range(900):
            if (told := profile / "MarionetteActivePort").exists() and (text := told.read_text().strip()):
                return int(text)
            if self._process.poll() is not None:
                break
            time.sleep(0.1)
        raise TimeoutError("Firefox did not start.")

    def _next(self) -> Any:
        length = b""
        while (one := self._answers.read(1)) != b":":
            length += one
        return json.loads(self._answers.read(int(length)))

    def send(self, name: str, **arguments: Any) -> Any:
        self._number += 1
        text = json.dumps([0, self._number, name, arguments]).encode()
        self._socket.sendall(b"%d:%b" % (len(text), text))
        _, _, error, found = self._next()
        assert error is None, f"{name}: {error}"
        return found["value"] if set(found or ()) == {"value"} else found

    def open(self, path: Path) -> None:
        self.send("WebDriver:Navigate", url=path.as_uri())
        self.until("Boolean(window.horoball)")
        self.drawn()

    def get(self, expression: str) -> Any:
        return self.send("WebDriver:ExecuteScript", script=f"return {expression}", args=[])

    def drawn(self) -> None:
        """Wait until the page has drawn what it knows."""
        frames = "requestAnimationFrame(() => requestAnimationFrame(() => arguments[0]()))"
        self.send("WebDriver:ExecuteAsyncScript", script=frames, args=[])

    def until(self, expression: str) -> None:
        for _ in range(500):
            if self.get(expression):
                return
            time.sleep(0.02)
        raise AssertionError(f"Waited in vain for {expression}")

    def text(self, selector: str) -> str:
        return str(self.get(f"document.querySelector({json.dumps(selector)}).innerText"))

    def drag(self, *pixels: tuple[float, float], shift: bool = False) -> None:
        """Press at the first place, go to the others, and let go at the last: at one place alone it is a click."""
        to = [{"type": "pointerMove", "x": round(x), "y": round(y), "duration": 30} for x, y in pixels]
        steps = [to[0], {"type": "pointerDown", "button": 0}, *to[1:], {"type": "pointerUp", "button": 0}]
        still = [{"type": "pause"}] * len(steps)
        keys = [{"type": "keyDown", "value": SHIFT}, *still, {"type": "keyUp", "value": SHIFT}] if shift else []
        sources = [{"type": "pointer", "id": "mouse", "actions": [{"type": "pause"}] * shift + steps}]
        sources += [{"type": "key", "id": "keys", "actions": keys}] * shift
        self.send("WebDriver:PerformActions", actions=sources)
        self.send("WebDriver:ReleaseActions")
        self.drawn()

    def write(self, selector: str, text: str) -> None:
        found = self.send("WebDriver:FindElement", using="css selector", value=selector)
        self.send("WebDriver:ElementSendKeys", id=found[ELEMENT], text=text)

    def shot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.send("WebDriver:TakeScreenshot", full=False)))

    def errors(self) -> list[str]:
        self.send("Marionette:SetContext", value="chrome")
        found = self.send("WebDriver:ExecuteScript", script=ERRORS, args=[])
        self.send("Marionette:SetContext", value="content")
        return list(found)
