"""The simulator with a real slack-bolt app against it, and a headless Chromium to look at its page."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.request import urlopen

import pytest
import websocket
from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient

from bot.simulator import Simulator


@pytest.fixture
def slack() -> Iterator[Simulator]:
    """A simulator with Slack's own times, so that a slow machine sees no redelivery."""
    with Simulator() as simulator:
        yield simulator


@pytest.fixture
def client(slack: Simulator) -> WebClient:
    return WebClient(token=slack.bot_token, base_url=slack.api_url)


@pytest.fixture
def app(client: WebClient) -> App:
    """A bolt app without listeners; `connected` puts it on the line."""
    return App(client=client)


@pytest.fixture
def connected(slack: Simulator, app: App) -> Iterator[SocketModeHandler]:
    """The app's connection. Listeners may still be added."""
    handler = SocketModeHandler(app, slack.app_token)
    handler.connect()
    slack.wait_connected()
    yield handler
    hang_up(slack, handler)


def hang_up(slack: Simulator, handler: SocketModeHandler) -> None:
    """The app is gone. Its client alone would wait 3 s in a read, so the connection is cut first."""
    handler.client.auto_reconnect_enabled = False
    slack.drop_connections()
    handler.close()


class Chromium:
    """One browser with one page, driven over DevTools. Errors that the page logs are kept in `errors`."""

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

    def __init__(self, path: str) -> None:
        self.errors: list[str] = []
        self._path = path
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        self._last_id = 0

    def __enter__(self) -> Self:
        command = [self._path, *self.FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._socket = websocket.create_connection(self._page_socket(), timeout=15, suppress_origin=True)
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.resize(1280, 900)
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

    def resize(self, width: int, height: int) -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, script: str, timeout_s: float = 10.0) -> Any:
        """The first truthy value of the expression. Raises TimeoutError with what the page shows."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            value = self.run(script)
            if value:
                return value
            time.sleep(0.03)
        raise TimeoutError(f"never true: {script}; the page has {self.run('document.body.innerText')!r}; {self.errors}")

    def _note(self, answer: dict[str, Any]) -> None:
        if answer.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(answer["params"]["exceptionDetails"]))
        if answer.get("method") == "Log.entryAdded" and answer["params"]["entry"]["level"] == "error":
            self.errors.append(str(answer["params"]["entry"]["text"]))

    def _page_socket(self) -> str:
        """The address of the page's DevTools socket, once the browser is up."""
        told = Path(self._profile.name, "DevToolsActivePort")
        deadline_s = time.monotonic() + 20
        while time.monotonic() < deadline_s:
            if told.exists() and len(lines := told.read_text().splitlines()) == 2:
                with urlopen(f"http://127.0.0.1:{lines[0]}/json/list", timeout=5) as answer:
                    pages = [target for target in json.load(answer) if target["type"] == "page"]
                if pages:
                    return str(pages[0]["webSocketDebuggerUrl"])
            time.sleep(0.05)
        raise TimeoutError("Chromium did not start within 20 s")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """One browser for a whole module: it takes seconds to start."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine: the page was not looked at")
    with Chromium(path) as browser:
        yield browser


@pytest.fixture
def page(chromium: Chromium, slack: Simulator) -> Chromium:
    """The simulator's page, open and drawn."""
    chromium.resize(1280, 900)
    chromium.open("about:blank")
    chromium.errors.clear()
    chromium.open(slack.url)
    chromium.wait_for("document.querySelector('#channels button.here') !== null && location.search === ''")
    return chromium
