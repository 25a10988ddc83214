"""`overnight metrics`: the lab's figures at /metrics for Prometheus, and at /health whether it is up."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from lab import hosts, store
from lab.errors import ConfigError
from lab.leader import DISPATCH, leader_key
from lab.settings import Settings
from lab.store import Client
from terminal.metrics import Lab

log = logging.getLogger(__name__)

PORT = 9095
READ_TIMEOUT_S = 10.0
"""A client that says nothing for so long is hung up on."""


@dataclass(frozen=True)
class Health:
    """What the lab needs and lacks."""

    missing: dict[str, str]
    """`redis`, `leader`, `host` to what to do about it."""

    @property
    def ok(self) -> bool:
        return not self.missing

    def json(self) -> bytes:
        """The document that /health answers."""
        return json.dumps({"ok": self.ok, "missing": self.missing}).encode() + b"\n"


def health(client: Client) -> Health:
    """The lab works when Redis answers, a dispatcher leads and a host's workers are up; Slack is no part of it."""
    try:
        missing = {}
        if not client.exists(leader_key(DISPATCH)):
            missing["leader"] = "no dispatcher leads; is `overnight dispatch` (or `up`) running?"
        if not hosts.hosts(client):
            missing["host"] = "no host's workers are up; is `overnight work` (or `up`) running?"
    except store.AWAY as error:
        missing = {"redis": f"does not answer ({type(error).__name__})"}
    return Health(missing)


class Exporter(ThreadingHTTPServer):
    """Serves from its own threads, between `start` and `stop`.

    Args:
        port: 0 takes a free one.

    Raises:
        ConfigError: it cannot listen there.
    """

    daemon_threads = True

    def __init__(self, client: Client, address: str, port: int) -> None:
        self.client = client
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(Lab(client))
        try:
            super().__init__((address, port), _Handler)
        except OSError as error:
            raise ConfigError("metrics.port", f"cannot listen on {address}:{port}: {error.strerror}") from None

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    def start(self) -> None:
        """It answers."""
        threading.Thread(target=self.serve_forever, args=(0.2,), daemon=True).start()

    def stop(self) -> None:
        """It no longer listens."""
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """A scrape that broke off or failed is a line in the log."""
        log.exception("metrics: a request could not be answered")


class _Handler(BaseHTTPRequestHandler):
    server: Exporter
    server_version = "overnight"
    sys_version = ""
    timeout = READ_TIMEOUT_S

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            self._answer(200, content_type, encode(self.server.registry))
        elif path == "/health":
            found = health(self.server.client)
            self._answer(200 if found.ok else 503, "application/json", found.json())
        else:
            self._answer(404, "text/plain; charset=utf-8", b"/metrics or /health\n")

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        log.debug("metrics: " + format, *args)


def main(settings: Settings, port: int | None, stop: threading.Event) -> None:
    """Serves until `stop` is set. Redis may be away, now or later: that too is an answer."""
    client = store.connect(settings, patient=False)
    exporter = Exporter(client, settings.metrics.address, port or settings.metrics.port or PORT)
    exporter.start()
    log.info("metrics: %s/metrics and /health", exporter.url)
    stop.wait()
    exporter.stop()
