"""What a request's model calls take is on the meter, and a budget that is used up leaves the reader alone."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from pydantic import SecretStr

from agent.desk import Desk, model_door, remember_form
from lab import beacons, meter
from lab.ledger import Ledger
from lab.run import Answer, RequestState, Spent
from lab.settings import ModelSettings, Settings
from tests.agent.test_intake import ASKED, _ask, _proposed, here

__all__ = ["here"]

PROPOSAL = {"intent": "compare", "models": ["resnet18"], "datasets": [], "axes": []}
USAGE = {"prompt_tokens": 900, "completion_tokens": 60, "total_tokens": 960}


class Endpoint(http.server.ThreadingHTTPServer):
    """A language model that always says the same, in the forms that it takes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.forms = ("json_schema", "json_object", "text")
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        form = body["response_format"]["type"]
        self.server.asked.append(form)
        choices = [{"message": {"content": json.dumps(PROPOSAL)}}]
        answer = json.dumps({"choices": choices, "usage": USAGE}).encode()
        self.send_response(200 if form in self.server.forms else 400)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def ask(ledger: Ledger, text: str, number: int) -> Answer:
    return _ask(ledger, text, f"slack:C:{number}")


def test_a_request_carries_what_it_took_and_the_meter_adds_it_up(
    here: Callable[..., Desk], ledger: Ledger, endpoint: Endpoint
) -> None:
    """One call in the usual case."""
    here(base_url=endpoint.url, api_key=SecretStr("k"), price_in=1.0, price_out=5.0)
    answer = ask(ledger, ASKED, 1)
    ask(ledger, ASKED, 2)
    ask(ledger, "exp-1 status", 3)

    one = Spent(calls=1, tokens_in=900, tokens_out=60, money=0.0012)
    assert answer.spent == one
    assert len(endpoint.asked) == 2
    kept = [r.answer for r in ledger.requests(RequestState.ANSWERED)]
    assert [a.spent for a in kept if a] == [one, one, None]
    assert meter.spent(ledger.client, time.time(), time.time()) == {meter.LAB: one + one, "U0ALICE": one + one}


@pytest.mark.parametrize("limit", ["daily_tokens", "daily_tokens_person"])
def test_after_the_budget_the_reader_answers_alone_and_says_so_once(
    here: Callable[..., Desk], ledger: Ledger, endpoint: Endpoint, limit: str
) -> None:
    """The plan is there all the same; the model is not asked until tomorrow, and nobody thinks that it is down."""
    here(base_url=endpoint.url, api_key=SecretStr("k"), **{limit: 1_000})
    before = [ask(ledger, ASKED, number) for number in range(2)]
    after = [ask(ledger, ASKED, number) for number in range(2, 5)]

    assert [a.note for a in before] == [None, None]
    assert len(endpoint.asked) == 2
    assert all(_proposed(ledger, a).n_runs == 4 for a in after)
    assert [a.spent for a in after] == [None] * 3
    assert after[0].note is not None
    assert "budget of 1,000 language model tokens a day is used up" in after[0].note
    assert [a.note for a in after[1:]] == [None, None]
    assert [b.problem for b in beacons.all_of(ledger.client)] == [None]


def test_the_note_is_in_the_askers_language(here: Callable[..., Desk], ledger: Ledger, endpoint: Endpoint) -> None:
    """A Chinese question, a Chinese note."""
    here(base_url=endpoint.url, api_key=SecretStr("k"), daily_tokens=0)

    assert "额度（0 token）已用完" in str(ask(ledger, "对比 resnet18 和 resnet34，2 个种子", 1).note)
    assert endpoint.asked == []


def test_the_form_that_an_endpoint_takes_is_remembered_for_a_day(
    here: Callable[..., Desk], ledger: Ledger, endpoint: Endpoint
) -> None:
    """Each request is a process of its own; without this each would be refused twice before it is answered."""
    endpoint.forms = ("text",)
    here(base_url=endpoint.url, api_key=SecretStr("k"))
    for number in range(2):
        ask(ledger, ASKED, number)

    assert endpoint.asked == ["json_schema", "json_object", "text", "text"]
    (key,) = ledger.client.keys("on:model:form:*")
    assert 86_000 < ledger.client.ttl(key) <= 86_400


def test_another_model_begins_with_the_best_form(settings: Settings, ledger: Ledger) -> None:
    """What one model of an endpoint cannot do another may."""

    def chosen(name: str) -> Settings:
        return settings.model_copy(update={"model": ModelSettings(base_url="http://x/v1", name=name)})

    door = model_door(chosen("small"), ledger.client)
    assert door is not None
    door.form = "text"
    remember_form(ledger.client, door)

    again, other = model_door(chosen("small"), ledger.client), model_door(chosen("large"), ledger.client)
    assert again is not None
    assert other is not None
    assert (again.form, other.form) == ("text", "json_schema")


def test_what_somebody_used_is_told(here: Callable[..., Desk], ledger: Ledger, endpoint: Endpoint) -> None:
    """In both languages, with the model's tokens where there are any."""
    here(base_url=endpoint.url, api_key=SecretStr("k"))
    ask(ledger, ASKED, 1)

    english, chinese = ask(ledger, "how many gpu hours have I used?", 2).text, ask(ledger, "我还剩多少卡时", 3).text
    assert "0 runs of yours ended in the last 7 days and held cards for 0.00 GPU-h" in english
    assert "1 call, 960 tokens" in english
    assert "共 0.00 卡时" in chinese
    assert "960 token" in chinese
