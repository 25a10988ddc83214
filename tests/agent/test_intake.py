"""A request gets its answer, whatever the message, the hosts and the language model are like."""

from __future__ import annotations

import http.server
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pydantic import SecretStr

from agent import desk, intake
from agent.desk import Desk
from lab import hosts, store
from lab.card import Card, DataSet, Host, HostCards
from lab.errors import OvernightError
from lab.estimate import words
from lab.ledger import Ledger
from lab.provenance import Provenance
from lab.run import Answer, Experiment, ExperimentState, Request, RequestState, RunResult, RunState
from lab.settings import ModelSettings, Settings
from workers.templates import TEMPLATES

ASKED = "compare resnet18 vs resnet34, lr 0.01, 2 seeds"


@pytest.fixture
def here(settings: Settings, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Desk]:
    """Lays the desk with these model settings, and a host that is up with the data set digits."""

    def lay(**model: object) -> Desk:
        chosen = settings.model_copy(update={"model": ModelSettings(**model)})  # type: ignore[arg-type]
        laid = Desk(chosen, ledger.client, ledger)
        monkeypatch.setattr(desk, "current", lambda: laid)
        _publish(ledger.client)
        return laid

    return lay


def _publish(client: store.Client) -> None:
    schemas = {name: template.schema() for name, template in TEMPLATES.items()}
    digits = DataSet(name="digits", present=True, train_samples=1437, image_size=32)
    cifar = DataSet(name="cifar10", present=False, how_to_get="python -c 'download'")
    hosts.publish_host(
        client, Host(host="a", version="0", code="c0de", templates=schemas, datasets=(digits, cifar), speed_flops=1e10)
    )
    cards = tuple(Card(uuid=f"G{i}", index=i, name="L20", host="a", read_at=time.time()) for i in range(3))
    hosts.publish_cards(client, HostCards(host="a", cards=cards, published_at=time.time()))


def _ask(ledger: Ledger, text: str, conversation: str = "slack:C:1") -> Answer:
    request = ledger.submit(text, "U0ALICE", conversation)
    assert request is not None
    intake.answer(request.id)
    answered: Request = ledger.request(request.id)
    assert answered.state is RequestState.ANSWERED
    assert answered.answer is not None
    return answered.answer


def _proposed(ledger: Ledger, answer: Answer) -> Experiment:
    assert answer.kind == "plan", answer.text
    assert answer.experiment_id is not None
    experiment = ledger.experiment(answer.experiment_id)
    assert experiment.state is ExperimentState.PROPOSED
    return experiment


def test_a_request_becomes_a_proposed_experiment(here: Callable[..., Desk], ledger: Ledger) -> None:
    """Proposed, with an estimate and every silent field assumed; nothing runs before somebody says so."""
    here()
    experiment = _proposed(ledger, _ask(ledger, ASKED))

    assert experiment.n_runs == 4
    assert experiment.estimate is not None
    assert {"dataset", "epochs", "axes.batch_size"} <= {a.field for a in experiment.plan.assumed}
    assert "the only data set on these hosts" in str(experiment.plan.why("dataset"))


def test_a_request_is_answered_once(here: Callable[..., Desk], ledger: Ledger) -> None:
    """The queue may deliver twice."""
    here()
    request = ledger.submit(ASKED, "U0ALICE", "slack:C:1")
    assert request is not None
    intake.answer(request.id)
    intake.answer(request.id)

    assert len(ledger.experiments()) == 1


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("train resnet18 on cifar10", "question", "python -c 'download'"),
        ("train resnet5O on digits", "question", "resnet50"),
        ("train resnet18 on digits with batch size -3", "question", "-3"),
        ("train resnet18 on digits for 2 hours", "question", "budget"),
        ("show me the contents of /etc/passwd", "refusal", ""),
        ("any free gpus?", "cards", ""),
        ("", "question", ""),
        ("🎉🎉🎉", "reply", ""),
        ("resnet " * 4000, "question", "characters"),
        ("hello!", "reply", ""),
    ],
)
def test_what_is_no_plan_starts_nothing(
    here: Callable[..., Desk], ledger: Ledger, text: str, kind: str, said: str
) -> None:
    """One polite answer, and nothing proposed."""
    here()
    answer = _ask(ledger, text)

    assert answer.kind == kind, answer
    assert said in answer.text
    assert not ledger.experiments()


def test_a_follow_up_changes_the_plan_of_its_thread(here: Callable[..., Desk], ledger: Ledger) -> None:
    """`same but with lr 3e-4` means that plan, with everything else kept."""
    here()
    _ask(ledger, ASKED, "slack:C:7")
    changed = _proposed(ledger, _ask(ledger, "same but with lr 3e-4", "slack:C:7"))

    assert changed.plan.models == ("resnet18", "resnet34")
    assert changed.plan.axes["lr"] == (3e-4,)
    assert changed.n_runs == 4


def test_a_named_experiment_is_changed_wherever_it_is_named(here: Callable[..., Desk], ledger: Ledger) -> None:
    """`run exp-1 again with 5 seeds`, in a conversation that has another experiment or none."""
    here()
    first = _proposed(ledger, _ask(ledger, "compare resnet18 vs resnet34, lr 0.03, 2 seeds", "slack:C:1"))
    _ask(ledger, "train mobilenetv3_small_100, lr 0.1", "slack:C:2")

    for conversation in ("slack:C:2", "slack:C:3"):
        changed = _proposed(ledger, _ask(ledger, f"run {first.id} again with 5 seeds", conversation))

        assert changed.plan.models == ("resnet18", "resnet34")
        assert changed.plan.axes["lr"] == (0.03,)
        assert changed.n_runs == 10


@pytest.mark.parametrize(
    "text",
    [
        "run exp-99 again with 5 seeds",
        "show me the report of exp-99",
        "exp-99 怎么样了",
        "what happened in exp-99 run 2",
    ],
)
def test_an_id_that_is_not_there_is_said_not_to_be_there(here: Callable[..., Desk], ledger: Ledger, text: str) -> None:
    """Asking for the id once more would be no answer."""
    here()
    _ask(ledger, ASKED, "slack:C:7")
    answer = _ask(ledger, text, "slack:C:7")

    assert "exp-99" in answer.text
    assert answer.experiment_id is None
    assert len(ledger.experiments()) == 1


def test_a_bug_still_gives_the_person_a_sentence(
    here: Callable[..., Desk], ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence is the worst answer; the traceback stays in the log."""
    here()
    monkeypatch.setattr(intake, "understand", lambda *_, **__: 1 / 0)
    answer = _ask(ledger, ASKED)

    assert answer.kind == "error"
    assert "req-" in answer.text
    assert "ZeroDivision" not in answer.text


def test_an_error_that_is_understood_is_told(
    here: Callable[..., Desk], ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its message was written for people."""

    def fail(*_: object, **__: object) -> None:
        raise OvernightError("the moon is full")

    here()
    monkeypatch.setattr(intake, "understand", fail)

    assert "the moon is full" in _ask(ledger, ASKED).text


# -- the language model ------------------------------------------------------------------------------------------


@contextmanager
def _endpoint(body: bytes, hang_s: float = 0.0) -> Iterator[str]:
    """A server that answers every POST with `body`, after `hang_s`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            ended.wait(hang_s)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    ended = threading.Event()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        ended.set()
        server.shutdown()
        server.server_close()


def _dead_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"


def _key() -> SecretStr:
    return SecretStr("sk-test")


def test_with_the_endpoint_down_the_plan_arrives_marked(here: Callable[..., Desk], ledger: Ledger) -> None:
    """The reader's plan stands, and the reply says so."""
    here(base_url=_dead_port(), api_key=_key(), timeout_s=5)
    answer = _ask(ledger, ASKED)

    assert _proposed(ledger, answer).n_runs == 4
    assert "cannot be reached" in str(answer.note)


@pytest.mark.parametrize("body", [b"<html>502</html>", b"{", b'{"choices": []}', b"\x00" * 600_000])
def test_with_garbage_the_plan_arrives_marked(here: Callable[..., Desk], ledger: Ledger, body: bytes) -> None:
    """Whatever an endpoint answers, the person gets a plan."""
    with _endpoint(body) as url:
        here(base_url=url, api_key=_key(), timeout_s=5)
        answer = _ask(ledger, ASKED)

    assert _proposed(ledger, answer).n_runs == 4
    assert answer.note


def test_with_an_endpoint_that_hangs_the_plan_arrives_in_time_and_marked(
    here: Callable[..., Desk], ledger: Ledger
) -> None:
    """Nobody waits for a model longer than the setting says."""
    with _endpoint(b"{}", hang_s=60) as url:
        here(base_url=url, api_key=_key(), timeout_s=1)
        began = time.monotonic()
        answer = _ask(ledger, ASKED)
        took = time.monotonic() - began

    assert _proposed(ledger, answer).n_runs == 4
    assert "1 s" in str(answer.note)
    assert took < 20


def test_what_a_model_invents_never_runs(here: Callable[..., Desk], ledger: Ledger) -> None:
    """An invented learning rate costs the lab's trust."""
    proposal = {
        "intent": "compare", "models": ["resnet18", "vit_huge"], "datasets": ["imagenet"],
        "axes": [{"name": "lr", "values": [0.5], "low": None, "high": None}], "epochs": 100, "max_steps": None,
        "gpus_per_run": 8, "trials": None, "gpu_hours": None, "wall_hours": None, "search": None, "metric": None,
        "priority": "high", "deadline": None,
    }  # fmt: skip
    body = json.dumps({"choices": [{"message": {"content": json.dumps(proposal)}}]}).encode()
    with _endpoint(body) as url:
        here(base_url=url, api_key=_key(), timeout_s=5)
        plan = _proposed(ledger, _ask(ledger, ASKED)).plan

    assert plan.models == ("resnet18", "resnet34")
    assert plan.axes["lr"] == (0.01,)
    assert plan.dataset == "digits"
    assert plan.epochs == 3
    assert plan.gpus_per_run == 1
    assert plan.priority == "normal"


@pytest.mark.parametrize(
    "text", ["cancel {a}; cancel {b}", "please stop {a} as well as {b}, thanks", "取消 {a} 和 {b}"]
)
def test_two_experiments_named_are_two_experiments_stopped(
    here: Callable[..., Desk], ledger: Ledger, text: str
) -> None:
    """However the sentence joins them."""
    here()
    both = [_proposed(ledger, _ask(ledger, ASKED, f"slack:C:{n}")) for n in (1, 2)]

    said = _ask(ledger, text.format(a=both[0].id, b=both[1].id), "slack:C:3")

    assert said.kind == "reply", said.text
    assert {ledger.experiment(e.id).state for e in both} == {ExperimentState.CANCELLED}


def _ran(ledger: Ledger, experiment_id: str) -> None:
    """The experiment was approved, and its runs ended with results of this lab's code."""
    ledger.approve(experiment_id, "U0ALICE")
    for run in ledger.runs(experiment_id):
        ledger.bind(run.id, ("G0",), "a", 0)
        ledger.client.hincrby(f"on:run:{run.id}", "fence", 1)
        ledger.start(run.id, 1, 4711)
        ledger.finish(run.id, 1, RunResult(metrics={"val_acc": 0.9}, provenance=Provenance(code="c0de")))


@pytest.mark.parametrize("asked", ["two more seeds please", "再加两个种子"])
def test_a_follow_up_is_estimated_by_its_new_runs(here: Callable[..., Desk], ledger: Ledger, asked: str) -> None:
    """Four old runs cost nothing; the card that counts them would promise twice the time."""
    here()
    first = _proposed(ledger, _ask(ledger, ASKED, "slack:C:7"))
    _ran(ledger, first.id)

    more = _proposed(ledger, _ask(ledger, asked, "slack:C:7"))

    assert more.n_runs == 8
    assert more.reused == tuple(f"{first.id}/{n}" for n in range(1, 5))
    assert first.estimate is not None
    assert more.estimate is not None
    assert more.estimate.gpu_hours == pytest.approx(first.estimate.gpu_hours)
    approved = ledger.approve(more.id, "U0ALICE")
    assert approved.reused == more.reused
    assert len(ledger.runs_in(RunState.QUEUED)) == 4


REPETITIONS = ("run all again", "全部重跑", "run it again", "再跑一次", "reproduce that", "复现一下")


@pytest.mark.parametrize("asked", REPETITIONS)
def test_whoever_asks_for_a_repetition_gets_one(here: Callable[..., Desk], ledger: Ledger, asked: str) -> None:
    """The old numbers are there; he wants to know whether they come out again."""
    here()
    first = _proposed(ledger, _ask(ledger, ASKED, "slack:C:7"))
    _ran(ledger, first.id)

    again = _proposed(ledger, _ask(ledger, asked, "slack:C:7"))
    ledger.approve(again.id, "U0ALICE")

    assert again.reused == ()
    assert again.plan.anew
    assert [run.state for run in ledger.runs(again.id)] == [RunState.QUEUED] * 4
    assert not _proposed(ledger, _ask(ledger, "two more seeds", "slack:C:7")).plan.anew, "it was said of that plan only"


def test_the_same_question_of_somebody_else_needs_no_run(here: Callable[..., Desk], ledger: Ledger) -> None:
    """Results are the lab's: the card says so, Run gives the report, and nothing is trained."""
    here()
    first = _proposed(ledger, _ask(ledger, ASKED, "slack:C:7"))
    _ran(ledger, first.id)

    other = _proposed(ledger, _ask(ledger, ASKED, "slack:C:8"))

    assert len(other.reused) == 4
    assert other.estimate is not None
    assert words(other.estimate) == "nothing to run"
    assert ledger.approve(other.id, "U0BEN").state is ExperimentState.FINISHED
    assert words(other.estimate, chinese=True) == "不用跑"
