"""A headless Chromium, driven over its DevTools socket: enough to look at the simulator's page and to click in it."""

import json
import shutil
import subprocess
import tempfile
import time
from base64 import b64decode
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import websocket

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)


def chromium_path() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Chromium:
    """One browser with one page. Console errors and exceptions of the page are kept in `errors`."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        self.errors: list[str] = []
        self._size = (width, height)
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        self._last_id = 0

    def __enter__(self) -> Self:
        path = chromium_path()
        assert path is not None
        command = [path, *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port, _ = self._wait_for_port()
        self._socket = websocket.create_connection(self._page_socket(port), timeout=15, suppress_origin=True)
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.resize(*self._size)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(timeout=10)
        self._profile.cleanup()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of one DevTools command."""
        self._last_id += 1
        self._socket.send(json.dumps({"id": self._last_id, "method": method, "params": params}))
        while True:
            answer: dict[str, Any] = json.loads(self._socket.recv())
            self._note(answer)
            if answer.get("id") == self._last_id:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])

    def open(self, url: str) -> None:
        self.send("Page.navigate", url=url)

    def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone
        )

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, script: str, timeout_s: float = 10.0) -> Any:
        """The first truthy value of the expression."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            value = self.run(script)
            if value:
                return value
            time.sleep(0.05)
        raise TimeoutError(f"never true: {script}; the page has {self.run('document.body.innerText')!r}; {self.errors}")

    def screenshot(self, path: Path) -> None:
        path.write_bytes(b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def _note(self, answer: dict[str, Any]) -> None:
        if answer.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(answer["params"]["exceptionDetails"]))
        if answer.get("method") == "Log.entryAdded" and answer["params"]["entry"]["level"] == "error":
            self.errors.append(str(answer["params"]["entry"]["text"]))

    def _wait_for_port(self) -> tuple[int, str]:
        told = Path(self._profile.name, "DevToolsActivePort")
        deadline_s = time.monotonic() + 20
        while time.monotonic() < deadline_s:
            if told.exists() and len(lines := told.read_text().splitlines()) == 2:
                return int(lines[0]), lines[1]
            time.sleep(0.05)
        raise TimeoutError("Chromium did not open its DevTools port")

    def _page_socket(self, port: int) -> str:
        from urllib.request import urlopen

        deadline_s = time.monotonic() + 10
        while time.monotonic() < deadline_s:
            targets = json.loads(urlopen(f"http://127.0.0.1:{port}/json/list", timeout=5).read())
            pages = [target for target in targets if target["type"] == "page"]
            if pages:
                return str(pages[0]["webSocketDebuggerUrl"])
            time.sleep(0.05)
        raise TimeoutError("Chromium has no page")
