"""The house around the code: what make, CI, compose and the README promise."""

from __future__ import annotations

import ast
import re
import shutil
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from overnight import app

ROOT = Path(__file__).parents[1]
MAX_FILE_BYTES = 1_000_000
SERVICES = ("valkey", "bot", "agent", "dispatch", "work", "keep", "metrics")
WATCHERS = ("prometheus", "grafana")
"""What is not ours: it looks at `metrics`."""
UNPINNED = re.compile(r"torch|torchvision|triton|cuda-.*|nvidia-(?!ml-py$).*")
"""What pip picks for the machine; constraints.txt says why."""


def commands() -> set[str]:
    """The commands of `overnight`."""
    group: Any = typer.main.get_command(app)
    return set(group.commands)


# -- make and CI -------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in a path with a space, its .venv ready and made of programs that write down how they are called."""
    root = tmp_path / "a checkout"
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "deploy/venv.sh", ".ci/run"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    for name in ("overnight", "python"):
        program = root / ".venv" / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" {name} "$@" >> called\nexit "${{FAKE_STATUS:-0}}"\n')
        program.chmod(0o755)
    (root / ".venv" / ".ready").touch()
    return root


def run(root: Path, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": f"{root / 'path'}:/usr/local/bin:/usr/bin:/bin", "HOME": str(root), **environ}
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=60)


def called(root: Path) -> list[str]:
    return (root / "called").read_text().splitlines()


HOSTILE = """he said "lr 1e-3" & it's $HOME $(touch pwned) `touch pwned`; touch pwned # 对比 $5 -x"""

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


@needs_make
def test_a_request_reaches_the_demo_as_it_is(checkout: Path) -> None:
    """TEXT is what a person typed: neither make nor the shell may read anything into it."""
    done = run(checkout, "make", "demo", f"TEXT={HOSTILE}", "ARGS=--out 'my night'")

    assert done.returncode == 0, done.stderr
    assert called(checkout) == ["overnight", "demo", "--out", "my night", "--", HOSTILE]
    assert not (checkout / "pwned").exists()


@needs_make
def test_a_request_may_come_by_the_environment_or_not_at_all(checkout: Path) -> None:
    """TEXT=... make demo is as good, and without it the demo asks its own."""
    run(checkout, "make", "demo", TEXT=HOSTILE)
    run(checkout, "make", "demo")

    assert called(checkout) == ["overnight", "demo", "--", HOSTILE, "overnight", "demo"]


@needs_make
@pytest.mark.parametrize(
    ("target", "calls"),
    [
        ("test", ["python -m pytest -k x"]),
        ("bench", ["python tests/bench/run.py -k x"]),
        ("upgrade-test", ["python tests/upgrade/run.py -k x"]),
        ("lint", ["python -m ruff check .", "python -m ruff format --check .", "python -m mypy"]),
    ],
)
def test_a_target_runs_its_tools_in_the_environment(checkout: Path, target: str, calls: list[str]) -> None:
    """Always those of .venv, never what lies on the PATH."""
    done = run(checkout, "make", target, "ARGS=-k x")

    assert done.returncode == 0, done.stderr
    assert " ".join(called(checkout)) == " ".join(calls)


@needs_make
def test_the_environment_is_set_up_again_when_what_it_holds_changed(checkout: Path) -> None:
    """A pulled pyproject.toml must not fail with a missing import; an unchanged one must not cost a minute."""
    ready = checkout / ".venv" / ".ready"
    ready.unlink()

    for _ in range(2):
        assert run(checkout, "make", "test").returncode == 0

    assert " ".join(called(checkout)) == (
        "python -m pip --version python -m pip install --disable-pip-version-check -c constraints.txt -e .[dev]"
        " python -m pytest python -m pytest"
    )
    assert ready.exists()


@needs_make
def test_an_old_python_is_named_before_anything_is_installed(checkout: Path) -> None:
    """The reason stands in one line, with what to type."""
    shutil.rmtree(checkout / ".venv")
    (checkout / "path").mkdir()
    old = checkout / "path" / "old python"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.1\nexit 1\n')
    old.chmod(0o755)

    done = run(checkout, "make", "demo", PYTHON=str(old))

    assert done.returncode != 0
    assert f"Python 3.11 or newer is needed; {old} is Python 3.9.1." in done.stderr
    assert not (checkout / ".venv").exists()


@needs_make
@pytest.mark.parametrize(("status", "succeeds"), [("0", True), ("1", False)])
def test_ci_fails_when_the_tests_fail(checkout: Path, status: str, succeeds: bool) -> None:
    """CI is `make test`, with its exit status and nothing of its own."""
    chromium = checkout / "path" / "chromium"  # so that nothing is installed
    chromium.parent.mkdir()
    chromium.write_text("#!/bin/sh\n")
    chromium.chmod(0o755)

    done = run(checkout, ".ci/run", FAKE_STATUS=status)

    assert (done.returncode == 0) is succeeds, done.stdout + done.stderr
    assert called(checkout) == ["python", "-m", "pytest"]


def test_the_scripts_may_be_executed() -> None:
    """CI starts .ci/run itself."""
    assert (ROOT / ".ci" / "run").stat().st_mode & stat.S_IXUSR


# -- packages ----------------------------------------------------------------------------------------------------


def test_constraints_pin_everything_but_the_builds_for_a_machine() -> None:
    """An exact version each, no address; what the project asks for directly is among them."""
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    wanted = {normal(re.split(r"[^A-Za-z0-9._-]", requirement)[0]) for requirement in asked}

    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!]+", line)] == []
    pinned = {normal(line.split("==")[0]) for line in lines}
    assert len(pinned) == len(lines)
    assert [name for name in pinned if UNPINNED.fullmatch(name)] == []
    assert {name for name in wanted - pinned if not UNPINNED.fullmatch(name)} == set()


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# -- containers --------------------------------------------------------------------------------------------------


def compose_command() -> list[str] | None:
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) and subprocess.run([*command, "version"], capture_output=True).returncode == 0:
            return command
    return None


def composed(tmp_path: Path, **environ: str) -> dict[str, Any]:
    """What compose makes of the file, outside of any .env."""
    command = compose_command()
    if command is None:
        pytest.skip("neither `docker compose` nor `docker-compose` works here")
    (tmp_path / "empty.env").touch()
    done = subprocess.run(
        [
            *(*command, "--env-file", str(tmp_path / "empty.env"), "-f", str(ROOT / "docker-compose.yml")),
            *("--profile", "watch", "config"),
        ],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), **environ},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr.lower()
    document: dict[str, Any] = yaml.safe_load(done.stdout)
    return document


def test_compose_takes_the_file_and_the_secrets(tmp_path: Path) -> None:
    """Each process gets the secrets that it needs, and no other."""
    secrets = {
        "VALKEY_PASSWORD": "s3cret",
        "SLACK_BOT_TOKEN": "xoxb-1",
        "SLACK_APP_TOKEN": "xapp-1",
        "OPENAI_API_KEY": "sk-1",
    }
    services = composed(tmp_path, **secrets)["services"]

    assert set(services) == {*SERVICES, *WATCHERS}
    for name in SERVICES[1:]:
        environment = services[name]["environment"]
        assert environment["OVERNIGHT_REDIS_URL"] == "redis://:s3cret@valkey:6379/0"
        assert ("SLACK_BOT_TOKEN" in environment) is (name == "bot")
        assert ("OPENAI_API_KEY" in environment) is (name == "agent")


def test_compose_config_passes_without_an_env_file(tmp_path: Path) -> None:
    """Looking at the file needs no secret; valkey alone refuses to start without its password, and says so."""
    services = composed(tmp_path)["services"]

    assert "VALKEY_PASSWORD:?is not set: put VALKEY_PASSWORD=... into .env" in services["valkey"]["command"][-1]


def test_the_example_of_env_names_what_compose_asks_for() -> None:
    """Who copies it fills in everything, and nothing that has no effect."""
    asked = re.findall(r"(?<!\$)\$\{([A-Z_]+)", (ROOT / "docker-compose.yml").read_text())
    named = re.findall(r"^([A-Z_]+)=", (ROOT / "deploy" / "env.example").read_text(), flags=re.M)

    assert set(named) == set(asked)


def compose_file() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return document


def test_the_processes_of_compose_are_commands_of_overnight() -> None:
    """A renamed command must not leave a container that ends at once."""
    services = compose_file()["services"]

    assert {services[name]["command"][0] for name in SERVICES[1:]} == set(SERVICES[1:])
    assert set(SERVICES[1:]) <= commands()


def test_only_what_is_looked_at_publishes_a_port_and_only_here() -> None:
    """Who reaches Valkey can start runs: it is not on the host's network."""
    services = compose_file()["services"]

    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert set(published) == set(WATCHERS)
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)


def test_work_and_keep_hold_the_cards_and_see_the_same_processes() -> None:
    """They meet on the host's name and on process numbers; the others have no card."""
    services = compose_file()["services"]

    for name, service in services.items():
        devices = service.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices", [])
        assert [device["capabilities"] for device in devices] == ([["gpu"]] if name in ("work", "keep") else []), name
        assert service.get("pid") == ("host" if name in ("work", "keep") else None), name
    assert services["work"]["environment"] == services["keep"]["environment"]
    assert services["work"]["environment"]["OVERNIGHT_HOST"]


def test_work_gets_longer_to_stop_than_a_run_has_for_its_checkpoint() -> None:
    """Else docker kills the run that is writing it."""
    grace_s = yaml.safe_load((ROOT / "config.example.yaml").read_text())["run"]["grace_s"]

    assert int(compose_file()["services"]["work"]["stop_grace_period"].removesuffix("s")) > grace_s + 15


# -- documents and files -----------------------------------------------------------------------------------------


def test_commands_in_the_documents_exist() -> None:
    """A reader types what a document shows."""
    documents = [path for path in (ROOT / name for name in ("README.md", "CONTRIBUTING.md")) if path.exists()]
    text = "\n".join(path.read_text() for path in documents)
    targets = set(re.findall(r"^([.a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))

    shown = set(re.findall(r"(?:^|[`/ ])overnight ([a-z]+)\b", "\n".join(code_of(text)), flags=re.M))
    assert shown <= commands()
    made = set(re.findall(r"(?:^|[` ;&])make ([.a-z-]+)\b", "\n".join(code_of(text)), flags=re.M))
    assert made <= targets
    assert {"demo", "test", "lint", "bench"} <= targets


def code_of(markdown: str) -> list[str]:
    """Fenced blocks without their comments, and inline code."""
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", markdown, flags=re.M | re.S)
    return [re.sub(r"\s#.*", "", block) for block in blocks] + re.findall(
        r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", markdown, flags=re.M | re.S)
    )


def test_every_prompt_is_asked_with() -> None:
    """A prompt that nobody sends is a prompt that somebody edits in vain."""
    spoken = {
        node.value
        for folder in ("lab", "agent", "workers", "keeper", "bot", "terminal")
        for file in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }

    unused = [p.name for p in (ROOT / "prompts").glob("*.md") if not {p.name, p.stem} & spoken]
    assert unused == []


def test_no_tracked_file_is_large() -> None:
    """A clone is small: checkpoints, data and recordings stay out."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("this is no git checkout")
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    tracked = [ROOT / name for name in done.stdout.split("\0") if name]

    assert [f"{p.name}: {p.stat().st_size}" for p in tracked if p.is_file() and p.stat().st_size > MAX_FILE_BYTES] == []
