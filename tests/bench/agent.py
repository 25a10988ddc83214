"""What a request costs the agent: time, memory, calls of the language model and the length of its question.

The real processes of `overnight agent` against a real Valkey and a model that answers at once. Prints one JSON object.
answer_ms: from the request's entry in the ledger to its answer, a fork for each included; calls_per_request: the usual
case takes 1; question_tokens: estimated, with prompt and schema, the longest of these; memory_mb: of the largest of the
agent's processes at any look while it answered and wrote a report with its figures.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil

from agent.model import estimate
from lab import store
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer, RequestState, RunResult
from lab.settings import Settings

REQUESTS = 30
SENTENCES = (
    "compare resnet50 vs efficientnet_b0 on cifar10, 3 seeds, lr 1e-3 and 3e-4, 20 epochs tonight",
    "用ResNet-50在CIFAR10上跑对比实验，学习率从1e-3到1e-5，3个种子",
)
PROPOSAL = {"intent": "compare", "models": [], "datasets": [], "axes": []}
WAIT_S = 120


class Endpoint(ThreadingHTTPServer):
    """A model that proposes nothing, at once, and remembers how long each question was."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.questions: list[int] = []


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        words = [message["content"] for message in body["messages"]]
        self.server.questions.append(sum(map(estimate, [*words, json.dumps(body["response_format"])])))
        answer = json.dumps({"choices": [{"message": {"content": json.dumps(PROPOSAL)}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Quiet: standard output is the JSON object's."""


class Watch:
    """The largest resident memory of a process and its children, looked at 20 times a second."""

    def __init__(self, pid: int) -> None:
        self.most_bytes = 0
        self._process = psutil.Process(pid)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ended.wait(0.05):
            for process in [self._process, *self._process.children(recursive=True)]:
                try:
                    self.most_bytes = max(self.most_bytes, process.memory_info().rss)
                except psutil.NoSuchProcess:  # a child that has just ended
                    continue

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


@contextmanager
def agent(settings: Settings, url: str) -> Iterator[Watch]:
    """`overnight agent` runs, and is watched."""
    environ = {**os.environ, "OVERNIGHT_DATA_DIR": str(settings.data_dir), "OVERNIGHT_MODEL__BASE_URL": url}
    running = subprocess.Popen([sys.executable, "-m", "overnight", "agent"], env=environ, stderr=subprocess.DEVNULL)
    watch = Watch(running.pid)
    try:
        yield watch
    finally:
        watch.stop()
        running.terminate()
        running.wait(20)


def until(done: Any, what: str) -> None:
    """Returns when `done()` is true; fails after WAIT_S."""
    deadline = time.monotonic() + WAIT_S
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.002)


def ask(ledger: Ledger, text: str) -> float:
    """Milliseconds from the request to its answer."""
    begin = time.perf_counter()
    request = ledger.submit(text, "U1", f"terminal:{begin}")
    assert request is not None
    until(lambda: ledger.request(request.id).state is RequestState.ANSWERED, request.id)
    return (time.perf_counter() - begin) * 1000


def report(ledger: Ledger) -> None:
    """An experiment of 12 runs ended, and its report with figures is written."""
    request = ledger.submit("hello", "U1", "terminal:report")
    assert request is not None
    until(lambda: ledger.request(request.id).state is RequestState.ANSWERED, request.id)
    other = ledger.submit("probe", "U1", "terminal:report")
    assert other is not None
    plan = Plan(template="probe", models=("a", "b"), axes={"lr": (0.1, 0.01), "seed": (0, 1, 2)}, metric="val_acc")
    experiment = ledger.propose(other.id, plan, None, Answer(kind="plan"))
    if experiment is None:
        raise RuntimeError("the agent was faster than this benchmark; run it again")
    ledger.approve(experiment.id, "U1")
    for run in ledger.runs(experiment.id):
        ledger.bind(run.id, (f"card-{run.number}",), "here", 0)
        ledger.client.hincrby(f"on:run:{run.id}", "fence", 1)
        ledger.start(run.id, 1, 1)
        curves: dict[str, list[tuple[float, float | None]]] = {"val_acc": [(n, n / 500) for n in range(1, 500)]}
        ledger.finish(run.id, 1, RunResult(metrics={"val_acc": 0.9 + run.number / 1000}, curves=curves))
    until(lambda: ledger.experiment(experiment.id).report_revision > 0, "the report")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="on-") as folder:
        settings = Settings(data_dir=Path(folder))
        endpoint = Endpoint()
        threading.Thread(target=endpoint.serve_forever, daemon=True).start()
        with (
            store.embedded(settings),
            agent(settings, f"http://127.0.0.1:{endpoint.server_port}/v1") as watch,
        ):
            ledger = Ledger(store.connect(settings))
            ask(ledger, SENTENCES[0])  # the start of the process is not a request's
            before = len(endpoint.questions)
            times_ms = sorted(ask(ledger, SENTENCES[n % len(SENTENCES)]) for n in range(REQUESTS))
            calls = len(endpoint.questions) - before
            report(ledger)
    print(
        json.dumps(
            {
                "requests": REQUESTS,
                "answer_ms": {"p50": round(statistics.median(times_ms), 1), "p95": round(times_ms[-2], 1)},
                "calls_per_request": round(calls / REQUESTS, 2),
                "question_tokens": max(endpoint.questions),
                "memory_mb": round(watch.most_bytes / 2**20, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
