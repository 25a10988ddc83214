"""The one door to a language model: an OpenAI-compatible endpoint, asked for what a message says."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.reader import PreviousPlan
from agent.reader.intents import Intent
from lab.errors import ModelError
from lab.plan import FEW, Frozen, Priority
from lab.run import Spent

Form = Literal["json_schema", "json_object", "text"]
FORMS: tuple[Form, ...] = ("json_schema", "json_object", "text")
"""Ways to ask for JSON; an endpoint that refuses one is asked in the next, and so from then on."""
MOST_BYTES = 256 * 1024
"""A plan needs 2 KB; an answer beyond this is no plan."""
MOST_TOKENS = 800
MOST_PROMPT_TOKENS = 3_000
"""By the estimate, with the schema; a longer question would cost more than it can add to the reader's plan."""
MOST_CALLS = 2
"""Of one question: the usual one, and once more after a failure or for a repair. A form that is refused is no call."""
ASCII_PER_TOKEN = 3
"""Characters a token on the safe side: English prose has 4 to 5, JSON and names of models about 3, Chinese about 1."""


class ProposedAxis(BaseModel):
    """One axis as the model proposes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(max_length=64)
    values: tuple[bool | int | float | str, ...] = Field((), max_length=1000)
    low: float | None = None
    high: float | None = None


class Proposal(Frozen):
    """What the model proposes; nothing of it counts before it was found in the message."""

    intent: Intent
    models: tuple[str, ...] = Field((), max_length=64)
    datasets: tuple[str, ...] = Field((), max_length=64)
    axes: tuple[ProposedAxis, ...] = Field((), max_length=64)
    epochs: int | None = None
    max_steps: int | None = None
    gpus_per_run: int | None = None
    trials: int | None = None
    gpu_hours: float | None = None
    wall_hours: float | None = None
    search: Literal["grid", "random", "bayesian"] | None = None
    metric: str | None = None
    priority: Priority | None = None
    deadline: str | None = None


class Proposer(Protocol):
    """Whoever proposes: the door below, or a scripted one in tests."""

    @property
    def prompt(self) -> str:
        """Name and hash of the prompt."""

    def propose(self, text: str, previous: PreviousPlan | None) -> Proposal:
        """What the message says, in the model's opinion.

        Raises:
            ModelError: nothing usable came back; the message says why in one sentence.
        """


@cache
def prompt(name: str) -> tuple[str, str]:
    """The prompt's text, and its name with the first 12 digits of its SHA-256."""
    text = resources.files("prompts").joinpath(name).read_text(encoding="utf-8")
    return text, f"{name} sha256:{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def strict_schema() -> dict[str, Any]:
    """The proposal's JSON schema as strict mode wants it: every key required, no others, no defaults or limits."""
    schema = Proposal.model_json_schema()
    for part in (schema, *schema.get("$defs", {}).values()):
        if part.get("type") == "object":
            part |= {"required": list(part["properties"]), "additionalProperties": False}
    dropped = re.compile(r"^(default|title|description|maxItems|maxLength)$")

    def bare(node: Any) -> Any:
        if isinstance(node, list):
            return [bare(n) for n in node]
        if isinstance(node, dict):
            return {k: bare(v) for k, v in node.items() if not (dropped.match(k) and not isinstance(v, dict))}
        return node

    return dict(bare(schema))


@dataclass
class ModelDoor:
    """An endpoint and how to ask it; holds no connection between questions.

    One instance may be used by one thread at a time, and not from inside a running event loop.
    """

    base_url: str
    api_key: str = field(repr=False)
    model: str
    timeout_s: float = 20.0
    """Wall-clock seconds for the whole question, retries and repair included."""
    max_retries: int = 1
    prompt_name: str = "plan.md"
    form: Form = "json_schema"
    price_in: float | None = None
    """What a million tokens of questions cost, in the lab's money, and `price_out` of answers; None is unknown."""
    price_out: float | None = None
    spent: Spent = field(default_factory=Spent)
    """What all questions so far took."""
    asked: bool = False
    """True once a question went out, whatever came of it."""
    _calls: int = field(default=0, repr=False)
    """Of the question that is being asked."""

    @property
    def prompt(self) -> str:
        """Name and hash of the prompt."""
        return prompt(self.prompt_name)[1]

    def propose(self, text: str, previous: PreviousPlan | None) -> Proposal:
        """What the message says, in the model's opinion; see Proposer."""
        self._calls = 0
        messages = [
            {"role": "system", "content": prompt(self.prompt_name)[0]},
            {"role": "user", "content": _question(text, previous)},
        ]
        long = _tokens(messages) + estimated_tokens(json.dumps(strict_schema()))
        if long > MOST_PROMPT_TOKENS:
            raise ModelError(f"too long for the language model (about {long} tokens, at most {MOST_PROMPT_TOKENS})")
        self.asked = True
        try:
            return asyncio.run(asyncio.wait_for(self._propose(messages), self.timeout_s))
        except TimeoutError:
            self._count(messages, None, "")  # it may have been at work on it
            raise ModelError(f"the language model did not answer in {self.timeout_s:g} s") from None

    async def _propose(self, messages: list[dict[str, str]]) -> Proposal:
        answer = await self._ask(messages)
        try:
            return parse(answer)
        except ModelError as error:
            if self._calls >= MOST_CALLS:
                raise
            repair = f"That was no usable answer ({error}). Answer with the JSON object alone."
            messages += [{"role": "assistant", "content": answer[:2000]}, {"role": "user", "content": repair}]
            return parse(await self._ask(messages))

    async def _ask(self, messages: list[dict[str, str]]) -> str:
        """The content of the answer, in the best form that the endpoint accepts."""
        import openai  # takes seconds, which `load` spends before the first request

        retries = min(self.max_retries, MOST_CALLS - 1 - self._calls)
        client = openai.AsyncOpenAI(
            base_url=self.base_url, api_key=self.api_key, timeout=self.timeout_s, max_retries=retries
        )
        async with client:
            while True:
                try:
                    return self._content(await self._post(client, messages), messages)
                except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                    if self.form == FORMS[-1]:
                        raise ModelError(f"the language model refused the question ({error.status_code})") from None
                    self.form = FORMS[FORMS.index(self.form) + 1]
                except openai.APITimeoutError:
                    self._count(messages, None, "")
                    raise ModelError(f"the language model did not answer in {self.timeout_s:g} s") from None
                except openai.APIStatusError as error:
                    raise ModelError(_status(error.status_code)) from None
                except openai.OpenAIError:
                    raise ModelError("the language model cannot be reached") from None

    async def _post(self, client: Any, messages: list[dict[str, str]]) -> bytes:
        form: dict[str, Any] = {"type": self.form}
        if self.form == "json_schema":
            form["json_schema"] = {"name": "plan", "strict": True, "schema": strict_schema()}
        asking = client.chat.completions.with_streaming_response.create(
            model=self.model, messages=messages, temperature=0, max_tokens=MOST_TOKENS, response_format=form
        )
        body = bytearray()
        async with asking as response:
            self._calls += 1 + response.retries_taken
            async for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise ModelError(f"the language model's answer is larger than {MOST_BYTES // 1024} KB")
        return bytes(body)

    def _content(self, body: bytes, messages: list[dict[str, str]]) -> str:
        try:
            record = json.loads(body)
            content = record["choices"][0]["message"]["content"]
        except (ValueError, LookupError, TypeError, RecursionError):
            self._count(messages, None, "")
            raise ModelError("the language model's endpoint did not answer in the OpenAI form") from None
        self._count(messages, record.get("usage"), content if isinstance(content, str) else "")
        if not isinstance(content, str):
            raise ModelError("the language model gave no answer")
        return content

    def _count(self, messages: list[dict[str, str]], usage: Any, answer: str) -> None:
        """One call more was made; what the endpoint does not tell of it is estimated."""
        told = usage if isinstance(usage, dict) else {}
        counts = [told.get(name) for name in ("prompt_tokens", "completion_tokens")]
        known = [count for count in counts if isinstance(count, int) and count >= 0]
        tokens_in, tokens_out = known if len(known) == 2 else (_tokens(messages), estimated_tokens(answer))
        money = None
        if self.price_in is not None and self.price_out is not None:
            money = (tokens_in * self.price_in + tokens_out * self.price_out) / 1e6
        estimated = 0 if len(known) == 2 else tokens_in + tokens_out
        self.spent += Spent(calls=1, tokens_in=tokens_in, tokens_out=tokens_out, estimated=estimated, money=money)


def load() -> None:
    """The endpoint's client is imported, once for all processes that are forked from this one."""
    import openai  # noqa: F401


def estimated_tokens(text: str) -> int:
    """Tokens of a text, on the safe side: no tokenizer is shipped, and each endpoint has its own."""
    plain = sum(c.isascii() for c in text)
    return -(-plain // ASCII_PER_TOKEN) + len(text) - plain


def _tokens(messages: list[dict[str, str]]) -> int:
    return sum(estimated_tokens(message["content"]) for message in messages)


def _question(text: str, previous: PreviousPlan | None) -> str:
    held = ""
    if previous is not None:
        fields = previous.model_dump(mode="json", include={"id", "models", "dataset", "axes", "epochs"})
        fields["models"] = _first(fields["models"])
        fields["axes"] = {name: _first(axis) for name, axis in fields["axes"].items()}
        held = f"<plan of the thread>{json.dumps(fields, ensure_ascii=False)}</plan of the thread>\n"
    return f"{held}<message>{text.replace('</message>', '')}</message>"


def _first(values: Any) -> Any:
    """The values, or the first of a long list and how many more there are: the model needs no more to know it by."""
    more = len(values) - FEW if isinstance(values, list) else 0
    return [*values[:FEW], f"and {more} more"] if more > 0 else values


def _status(code: int) -> str:
    reasons = {401: "refused the key", 403: "refused the key", 404: "is not there", 429: "has too many requests"}
    return f"the language model {reasons.get(code, 'failed')} ({code})"


def parse(answer: str) -> Proposal:
    """The proposal in the answer, which may stand in a code block or amid prose.

    Raises:
        ModelError: there is no JSON object in it, or one that is no proposal.
    """
    start, end = answer.find("{"), answer.rfind("}")
    if start < 0 or end < start:
        raise ModelError("the language model's answer holds no JSON object")
    try:
        return Proposal.model_validate_json(answer[start : end + 1])
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(p) for p in first["loc"]) or "the whole"
        raise ModelError(f"the language model's answer is no plan: {where}: {first['msg']}") from None
