"""The command line: puts the packages together, importing each inside its command so that none pays for another."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from lab.settings import Settings
    from lab.store import Client

app = typer.Typer(
    name="overnight",
    help="Hand in the experiment before bed; wake up to the answer.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

DEMO_TEXT = "compare ResNet50 vs EfficientNet"
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Batch = Annotated[bool, typer.Option("--batch", help="Read JSON lines from standard input, write JSON lines.")]


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        from importlib.metadata import version as of

        typer.echo(f"overnight {of('overnight')}")
        raise typer.Exit


def main() -> None:
    """Runs the command; a failure that Overnight understands is one line on standard error and status 1."""
    from lab.errors import OvernightError

    try:
        app()
    except OvernightError as error:
        typer.echo(f"overnight: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        from lab.store import AWAY, unwilling

        if not isinstance(error, AWAY):
            raise
        typer.echo(f"overnight: {unwilling(error)}", err=True)
        sys.exit(1)


# -- processes ---------------------------------------------------------------------------------------------------


@app.command(rich_help_panel="Processes")
def up() -> None:
    """Start everything on this machine, until Ctrl-C."""
    import logging
    import threading

    from terminal.cards import read_here
    from terminal.stack import EVERYTHING, Stack

    settings = _settings("up")
    stop = threading.Event()
    _on_signals(stop)
    has_slack = settings.slack.bot_token is not None and settings.slack.app_token is not None
    names = [name for name in EVERYTHING if name != "bot" or has_slack]
    names += ["metrics"] if settings.metrics.port else []
    with Stack(settings, names) as stack:
        log = logging.getLogger("up")
        log.info("up: %s; logs in %s", ", ".join(names), settings.data_dir / "logs")
        if not has_slack:
            log.warning("no Slack tokens (slack.bot_token, slack.app_token): `overnight ask` is the entrance")
        if problem := read_here(settings).problem:
            log.warning("no card to train on, the runs wait until there is one: %s", problem)
        while not stop.wait(1.0):
            stack.step()


@app.command(rich_help_panel="Processes")
def bot() -> None:
    """Slack and the courier that speaks in it."""
    from bot.app import main as run

    run(_settings("bot"))


@app.command(rich_help_panel="Processes")
def agent() -> None:
    """Workers that understand requests and write reports."""
    from agent.worker import main as run

    run(_settings("agent"))


@app.command(rich_help_panel="Processes")
def dispatch() -> None:
    """The dispatcher: binds runs to free cards, and the alarm beside it; one of each leads, others stand by."""
    from contextlib import nullcontext

    from keeper.alarm import Alarm
    from workers.dispatch import main as run

    settings = _settings("dispatch")
    with Alarm(settings) if settings.alerts.enabled else nullcontext():
        run(settings)


@app.command(rich_help_panel="Processes")
def work() -> None:
    """This host's workers, one a usable card."""
    from workers.supervisor import main as run

    run(_settings("work"))


@app.command(rich_help_panel="Processes")
def keep() -> None:
    """This host's cards: readings, and the heartbeat on the reserved one."""
    from keeper.main import main as run

    run(_settings("keep"))


@app.command(rich_help_panel="Processes")
def metrics(
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="By default metrics.port, else 9095.")] = None,
) -> None:
    """The lab's figures for Prometheus at /metrics, and at /health whether it is up; one process for all hosts."""
    import threading

    from terminal.exporter import main as run

    settings = _settings("metrics")
    stop = threading.Event()
    _on_signals(stop)
    run(settings, port, stop)


@app.command(rich_help_panel="Processes")
def simulate(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
) -> None:
    """A local Slack to try the bot with; prints its page and the two tokens."""
    from bot.simulator.__main__ import main as run

    sys.exit(run(["--port", str(port)]))


# -- experiments -------------------------------------------------------------------------------------------------


@app.command(rich_help_panel="Experiments")
def demo(
    text: Annotated[str, typer.Argument(help="What to ask.")] = DEMO_TEXT,
    out: Annotated[Path, typer.Option(help="Folder for report.md, curves.png and thread.json.")] = Path("demo-out"),
    keep_page: Annotated[bool, typer.Option("--keep", help="Leave the page up at the end, until Ctrl-C.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; 0 takes a free one.")] = 0,
) -> None:
    """Everything on one machine, with a simulated Slack and simulated cards: ask, run, report."""
    from terminal.demo import run

    sys.exit(run(text, out, _console(), keep_page=keep_page, port=port))


@app.command(rich_help_panel="Experiments")
def ask(
    text: Annotated[str, typer.Argument(help="The request, as you would write it in Slack.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Run the plan without asking.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the report's figures.")] = Path(),
) -> None:
    """Ask in this terminal instead of Slack."""
    from terminal.ask import run

    settings = _settings(None)
    sys.exit(run(settings, _client(settings), _console(), text, yes=yes, out=out))


@app.command(rich_help_panel="Experiments")
def understand(
    text: Annotated[str | None, typer.Argument(help="The request.")] = None,
    as_json: Json = False,
    batch: Batch = False,
) -> None:
    """Show what a request is understood as; needs neither Redis nor hosts."""
    from agent.desk import defaults, model_door
    from agent.understand import batch as answers
    from agent.understand import to_case, understand

    settings = _settings(None)
    given = defaults(settings, "digits", "it ships with Overnight")
    if batch:
        for line in answers(sys.stdin, given, model_door(settings)):
            typer.echo(line)
        return
    if text is None:
        _wrong_usage("give the request as an argument, or --batch")
    door = model_door(settings)
    understood = understand(text, model=door, defaults=given)
    if as_json:
        spent = door.spent.model_dump(mode="json") if door else None
        _print_json({**to_case("request", understood), "note": understood.model_note, "model": spent})
    else:
        typer.echo(f"{understood.intent}: {understood.reply}")
        if understood.model_note:
            typer.echo(f"({understood.model_note})")


@app.command(rich_help_panel="Experiments", name="list")
def list_experiments(as_json: Json = False) -> None:
    """The experiments, newest last."""
    from lab.forecast import forecasts
    from lab.ledger import Ledger
    from terminal.tables import experiments_table

    ledger = Ledger(_client(_settings(None)))
    experiments = ledger.experiments()
    if as_json:
        _print_json([e.model_dump(mode="json") for e in experiments])
    elif not experiments:
        typer.echo('no experiment yet; `overnight ask "compare resnet18 vs resnet34"` makes one')
    else:
        counts = {e.id: ledger.counts(e.id) for e in experiments}
        _console().print(experiments_table(experiments, counts, forecasts(ledger.client, counts)))


@app.command(rich_help_panel="Experiments")
def show(
    experiment_id: Annotated[str, typer.Argument(metavar="EXPERIMENT", help="exp-12")], as_json: Json = False
) -> None:
    """One experiment: plan, runs and report."""
    from terminal.tables import show_experiment

    settings = _settings(None)
    document = show_experiment(settings, _client(settings), None if as_json else _console(), experiment_id)
    if as_json:
        _print_json(document)


Subject = Annotated[
    str, typer.Argument(metavar="ID", help="exp-12, one run of it (exp-12/3), or mine: all that waits.")
]


@app.command(rich_help_panel="Experiments")
def cancel(subject: Subject) -> None:
    """Stop an experiment or one run; what runs writes a checkpoint first."""
    _order("cancel", subject)


@app.command(rich_help_panel="Experiments")
def pause(subject: Subject) -> None:
    """Hold it: what waits stays, what runs writes a checkpoint and frees its card."""
    _order("pause", subject)


@app.command(rich_help_panel="Experiments")
def resume(subject: Subject) -> None:
    """Go on with what was paused, from its checkpoints."""
    _order("resume", subject)


@app.command(rich_help_panel="Experiments")
def retry(subject: Subject) -> None:
    """Run once more what failed, and only that."""
    _order("retry", subject)


@app.command(rich_help_panel="Experiments")
def priority(subject: Subject, level: Annotated[str, typer.Argument(help="low, normal or high")]) -> None:
    """Change the priority of what has not ended."""
    from lab.plan import PRIORITIES

    if level not in PRIORITIES:
        _wrong_usage(f"a priority is {', '.join(PRIORITIES)}, not {level!r}")
    _order("priority", subject, level)


@app.command(rich_help_panel="Experiments")
def preferences(
    forget: Annotated[str | None, typer.Option(help="all, or one: dataset, seed, epochs, metric, lr, ...")] = None,
    person: Annotated[str | None, typer.Option(help="Whose: a name as plans have it; yours.")] = None,
    as_json: Json = False,
) -> None:
    """What you usually take, which plans assume where a request is silent; and how to have it forgotten."""
    from agent.preferences import remembered, usual
    from lab import habits

    fields = {field.removeprefix("axes."): field for field in habits.FIELDS}
    if forget is not None and forget not in ("all", *fields):
        _wrong_usage(f"--forget is all, {', '.join(fields)}, not {forget!r}")
    client, whose = _client(_settings(None)), person or _user()
    if forget is not None:
        done = habits.forget(client, whose, fields.get(forget))
        typer.echo(f"forgotten: {forget} of {whose}" if done else f"nothing of it was remembered of {whose}")
        return
    uses = habits.uses(client, whose)
    if as_json:
        _print_json({"person": whose, "plans": len(uses), "usual": usual(uses)})
    else:
        typer.echo(remembered(uses, None, chinese=False))


# -- the lab -----------------------------------------------------------------------------------------------------


@app.command(rich_help_panel="Lab")
def cards(
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="Again every two seconds, until Ctrl-C.")] = False,
) -> None:
    """Every card: what it does, its memory, utilisation and temperature."""
    from terminal.cards import look

    settings = _settings(None)
    while True:
        seen = look(settings)
        if watch:
            _console().clear()
        if as_json:
            _print_json(seen.document())
        else:
            typer.echo(seen.text())
        if not watch:
            sys.exit(0 if seen.readable else 1)
        time.sleep(2.0)


@app.command(rich_help_panel="Lab")
def usage(
    by: Annotated[str, typer.Option(help="person, experiment or run")] = "person",
    days: Annotated[float, typer.Option(min=0.01, max=3650, help="How far back.")] = 7.0,
    as_json: Json = False,
) -> None:
    """GPU-hours and energy of the runs that ended lately, and what the language model took."""
    from typing import cast

    from lab import meter
    from lab.usage import ended_since
    from terminal.usage import By, model_json, model_lines, notes, shares, table, total

    if by not in ("person", "experiment", "run"):
        _wrong_usage(f"--by is person, experiment or run, not {by!r}")
    by_ = cast(By, by)
    now, client = time.time(), _client(_settings(None))
    used = list(ended_since(client, now - days * 86_400))
    model = meter.spent(client, now - days * 86_400, now)
    found, everything = shares(used, by_), total(used)
    if as_json:
        total_ = everything.model_dump(mode="json", exclude={"name"})
        shares_ = [s.model_dump(mode="json") for s in found]
        _print_json({"by": by, "days": days, "total": total_, "shares": shares_, "model": model_json(model)})
        return
    if not used:
        typer.echo(f"no run has ended in the last {days:g} days")
    else:
        _console().print(table(found, everything, by_))
        typer.echo("\n".join(notes(everything, days)))
    typer.echo("\n".join(model_lines(model)))


@app.command(rich_help_panel="Lab")
def keeper(
    verb: Annotated[str, typer.Argument(help="status, release (its card trains) or hold (it is reserved again)")],
    host: Annotated[str | None, typer.Option(help="Whose keeper; this host's, or the only one.")] = None,
    hours: Annotated[float | None, typer.Option(min=0.01, max=8760, help="How long a release lasts.")] = None,
    as_json: Json = False,
) -> None:
    """The reserved card: what its keeper shows and costs; release it to the runs, or hold it again."""
    from terminal.keeper import document, lines, states, tell

    if verb not in ("status", "release", "hold"):
        _wrong_usage(f"status, release or hold is wanted, not {verb!r}")
    if hours is not None and verb != "release":
        _wrong_usage("--hours goes with release")
    settings = _settings(None)
    client = _client(settings)
    if verb != "status":
        typer.echo(tell(client, settings, verb, host, hours, _user()))  # type: ignore[arg-type]
        return
    found = [state for state in states(client) if host in (None, state[0])]
    if as_json:
        _print_json(document(found))
    else:
        typer.echo("\n".join(lines(found)))


@app.command(rich_help_panel="Lab")
def quarantine(
    verb: Annotated[str, typer.Argument(help="list, put (no new run for a while) or lift (runs again)")] = "list",
    card: Annotated[str | None, typer.Argument(help="node07/3, its host and number, or its UUID.")] = None,
    hours: Annotated[float, typer.Option(min=0.01, max=8760, help="For how long, with put.")] = 8.0,
    why: Annotated[str | None, typer.Option(help="The reason that people see, with put.")] = None,
    as_json: Json = False,
) -> None:
    """Cards that get no run after a hardware fault, or because you say so."""
    from lab.ledger import Ledger
    from terminal.quarantine import document, lift, lines, put, quarantined

    if verb not in ("list", "put", "lift"):
        _wrong_usage(f"list, put or lift is wanted, not {verb!r}")
    if (card is None) != (verb == "list"):
        _wrong_usage("put and lift name a card, list names none")
    ledger = Ledger(_client(_settings(None)))
    if card is not None:
        typer.echo(lift(ledger, card) if verb == "lift" else put(ledger, card, hours, why or f"{_user()} said so"))
        return
    found = quarantined(ledger)
    if as_json:
        _print_json(document(found))
    else:
        typer.echo("\n".join(lines(found)))


@app.command(rich_help_panel="Lab")
def alerts(as_json: Json = False) -> None:
    """What is wrong in the lab now, what was since yesterday, and what is silenced."""
    from terminal.alerts import show_alerts

    document = show_alerts(_client(_settings(None)), None if as_json else _console())
    if as_json:
        _print_json(document)


@app.command(rich_help_panel="Lab")
def doctor(as_json: Json = False) -> None:
    """Check Redis, cards, model endpoint, Slack, disk, data sets, ledger and run directories; name what to fix."""
    from terminal.doctor import examine

    findings = examine(_settings(None))
    if as_json:
        _print_json([finding.model_dump(mode="json") for finding in findings])
    else:
        for finding in findings:
            typer.echo(finding.line())
    sys.exit(1 if any(finding.state == "broken" for finding in findings) else 0)


@app.command(rich_help_panel="Lab")
def backup(
    file: Annotated[Path, typer.Argument(help="The archive to write, lab.tar.gz.")],
    checkpoints: Annotated[bool, typer.Option(help="Checkpoints too: most of the bytes.")] = False,
) -> None:
    """Write ledger, reports and run directories into one archive; the lab may be at work."""
    from terminal.backup import backup as write

    written = write(_settings(None), file, checkpoints=checkpoints)
    typer.echo(f"{file}: {written.keys} keys and {written.files} files, {file.stat().st_size / 2**20:.1f} MiB")


@app.command(rich_help_panel="Lab")
def restore(file: Annotated[Path, typer.Argument(help="An archive of `overnight backup`.")]) -> None:
    """Put a backup into an empty data folder; `overnight up` goes on from there."""
    from terminal.backup import restore as put_back

    settings = _settings(None)
    restored = put_back(settings, file)
    typer.echo(
        f"{settings.data_dir}: {restored.keys} keys and {restored.files} files; `overnight up` goes on from there"
    )


@app.command(rich_help_panel="Lab")
def diagnose(
    file: Annotated[Path | None, typer.Argument(help="The log of a run; standard input when absent.")] = None,
    exit_code: Annotated[int | None, typer.Option(help="With what the run ended, if known.")] = None,
    as_json: Json = False,
    batch: Batch = False,
) -> None:
    """Why a run failed, from its log."""
    from dataclasses import asdict

    from lab.diagnose import diagnose as find

    if batch:
        for line in sys.stdin:
            case = json.loads(line)
            found = find(case["log"], case.get("exit_code"))
            typer.echo(json.dumps({"id": case["id"], **asdict(found)}, ensure_ascii=False))
        return
    if file is not None and not file.is_file():
        _wrong_usage(f"{file} is no file")
    found = find(file.read_text(errors="replace") if file else sys.stdin.read(), exit_code)
    if as_json:
        _print_json(asdict(found))
    else:
        typer.echo(f"{found.cause}: {found.advice}\n  {found.evidence}")


# -- what the commands share -------------------------------------------------------------------------------------


def _settings(process: str | None) -> Settings:
    """The settings; logging is set up too when `process` names a long-lived one. Raises ConfigError."""
    from lab.settings import load

    settings = load()
    if process:
        from lab.logs import setup

        setup(settings.log_level, process)
    return settings


def _client(settings: Settings) -> Client:
    from lab import store

    client = store.connect(settings)
    store.check(client, settings)
    return client


def _console() -> Console:
    from rich.console import Console

    return Console(soft_wrap=True)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def _order(verb: Any, subject: str, level: Any = None) -> None:
    """Carries the order out as an admin: whoever has a shell on this machine runs the lab."""
    from lab.ledger import Ledger
    from lab.orders import Order, carry_out

    typer.echo(carry_out(Order(verb, subject, level), Ledger(_client(_settings(None))), _user(), admin=True))


def _user() -> str:
    import getpass

    return getpass.getuser()


def _on_signals(stop: Any) -> None:
    import signal

    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, lambda *_: stop.set())


def _wrong_usage(problem: str) -> NoReturn:
    typer.echo(f"overnight: {problem}", err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
