"""The arrows between the folders: who may import whom, and which file is the one door to an outside system."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

ARROWS: Mapping[str, frozenset[str]] = {
    "lab": frozenset(),
    "agent": frozenset({"lab", "prompts"}),
    "workers": frozenset({"lab"}),
    "keeper": frozenset({"lab"}),
    "bot": frozenset({"lab"}),
    "bot.simulator": frozenset(),
    "terminal": frozenset({"lab"}),
    "prompts": frozenset(),
}
"""What a folder may import besides itself; `bot.simulator` knows nothing of the bot either."""

PUT_TOGETHER: Mapping[str, frozenset[str]] = {
    "terminal": frozenset({"agent.desk", "bot.app", "bot.outbox", "bot.simulator", "keeper.main", "workers.datasets"}),
}
"""Where demo, doctor and metrics put packages together: inside functions only, so that nobody pays for another."""

PROJECT = (*ARROWS, "overnight")

DOORS: Mapping[str, tuple[str, ...]] = {
    "openai": ("agent.model",),
    "pynvml": ("keeper.nvml",),
    "slack_bolt": ("bot",),
    "slack_sdk": ("bot",),
    "mlflow": ("workers.tracking",),
}
"""The only modules that import an outside system's client; everything else sees our own types."""

REDIS_MAKERS = frozenset({"Redis", "StrictRedis", "RedisCluster", "Sentinel", "ConnectionPool", "from_url"})
REDIS_DOOR = "lab.store"

HEAVY = frozenset({"torch", "torchvision", "timm"})
"""Three to nine seconds and hundreds of megabytes to import."""

TRAINERS = ("workers.templates", "workers.checkpoint")
"""What a run's own interpreter imports, and no process of Overnight."""


@dataclass(frozen=True)
class Import:
    """One module that a file imports; `lazy` inside a function or for types only."""

    module: str
    line: int
    lazy: bool


def imports_of(module: str, source: str, *, package: bool = False) -> list[Import]:
    """Every import in a source: statements anywhere, and import_module of a constant name."""
    finder = _Finder(module if package else module.rpartition(".")[0])
    finder.visit(ast.parse(source))
    return finder.found


class _Finder(ast.NodeVisitor):
    def __init__(self, package: str) -> None:
        self.package = package
        self.found: list[Import] = []
        self._depth = 0

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            parents = self.package.split(".")
            above = ".".join(parents[: len(parents) - node.level + 1])
            base = f"{above}.{base}".strip(".")
        for alias in node.names:  # `from bot import app` may name a module
            self._add(f"{base}.{alias.name}", node.lineno)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in {"import_module", "__import__"} and node.args and isinstance(node.args[0], ast.Constant):
            self._add(str(node.args[0].value), node.lineno)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        types_only = "TYPE_CHECKING" in ast.dump(node.test)
        self._depth += types_only
        for child in node.body:
            self.visit(child)
        self._depth -= types_only
        for child in node.orelse:
            self.visit(child)

    def _function(self, node: ast.AST) -> None:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function  # noqa: N815  the names that ast calls

    def _add(self, module: str, line: int) -> None:
        self.found.append(Import(module, line, lazy=self._depth > 0))


def within(module: str, packages: frozenset[str] | tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def home_of(module: str) -> str | None:
    """The innermost of our folders that a module lies in; None for foreign ones."""
    homes = [package for package in PROJECT if within(module, (package,))]
    return max(homes, key=len, default=None)


def problems(module: str, source: str, *, package: bool = False) -> list[str]:
    """What a file imports against the arrows and doors, a sentence each."""
    found = imports_of(module, source, package=package)
    return [*_against_arrows(module, found), *_through_walls(module, source, found)]


def _against_arrows(module: str, found: list[Import]) -> Iterator[str]:
    home = home_of(module)
    for wanted in found:
        target = home_of(wanted.module)
        if target is None or home is None:
            continue
        if home == "overnight":
            if not wanted.lazy:
                yield f"{module}:{wanted.line} imports {wanted.module} outside a function"
            continue
        if within(target, (home, *ARROWS[home])):
            continue
        if wanted.lazy and within(wanted.module, PUT_TOGETHER.get(home, frozenset())):
            continue
        yield f"{module}:{wanted.line} imports {wanted.module}, and {home} may import {_list(ARROWS[home])}"


def _through_walls(module: str, source: str, found: list[Import]) -> Iterator[str]:
    for wanted in found:
        for system, doors in DOORS.items():
            if within(wanted.module, (system,)) and not within(module, doors):
                yield f"{module}:{wanted.line} imports {system}, whose door is {_list(doors)}"
    if module == REDIS_DOOR:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in REDIS_MAKERS:
                yield f"{module}:{node.lineno} makes a Redis client with {name}; {REDIS_DOOR} does"


def _list(names: frozenset[str] | tuple[str, ...]) -> str:
    return ", ".join(sorted(names)) or "nothing of the others"


def sources(root: Path) -> dict[str, Path]:
    """Every module of the project by its dotted name."""
    files = [
        root / "overnight.py",
        *(f for top in ARROWS if "." not in top for f in sorted((root / top).rglob("*.py"))),
    ]
    return {_dotted(file.relative_to(root)): file for file in files}


def _dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def way_to_heavy(module: str, graph: Mapping[str, list[Import]]) -> str | None:
    """`workers.job -> workers.checkpoint -> torch`: how importing a module loads torch; None when it does not."""
    ways: deque[tuple[str, ...]] = deque([(module,)])
    seen = {module}
    while ways:
        way = ways.popleft()
        for wanted in graph.get(way[-1], []):
            top = wanted.module.split(".")[0]
            if wanted.lazy:
                continue
            if top in HEAVY:
                return " -> ".join((*way, top))
            for name in _loaded_with(wanted.module, graph):
                if name not in seen:
                    seen.add(name)
                    ways.append((*way, name))
    return None


def _loaded_with(module: str, graph: Mapping[str, list[Import]]) -> list[str]:
    """A module and the packages around it, as far as they are ours; `lab.plan.Plan` is a name in `lab.plan`."""
    parts = module.split(".")
    return [name for n in range(1, len(parts) + 1) if (name := ".".join(parts[:n])) in graph]


# -- the tree as it is -------------------------------------------------------------------------------------------


def test_every_folder_keeps_to_the_arrows_and_doors() -> None:
    """A star: everybody may know lab, nobody knows a neighbour, and each outside system has one door."""
    found = [
        problem
        for module, file in sources(ROOT).items()
        for problem in problems(module, file.read_text(encoding="utf-8"), package=file.name == "__init__.py")
    ]

    assert found == []


def test_no_process_loads_torch_by_importing() -> None:
    """Bot, dispatcher and supervisor start in a second and stay small; only a run's own interpreter pays for torch."""
    graph = {
        module: imports_of(module, file.read_text(encoding="utf-8"), package=file.name == "__init__.py")
        for module, file in sources(ROOT).items()
    }

    ways = [way for module in graph if not within(module, TRAINERS) and (way := way_to_heavy(module, graph))]
    assert ways == []


def test_the_arrows_name_folders_that_exist() -> None:
    """A renamed folder must not fall out of the test."""
    assert [name for name in ARROWS if not (ROOT / name.replace(".", "/") / "__init__.py").is_file()] == []


# -- what the test finds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "source", "named"),
    [
        ("lab.plan", "import agent", "agent"),
        ("lab.plan", "from terminal.stack import Stack", "terminal.stack"),
        ("agent.intake", "from bot.render import plan", "bot.render"),
        ("agent.intake", "def f():\n    import workers.job", "workers.job"),
        ("agent.intake", "from ..keeper import nvml", "keeper.nvml"),
        ("workers.job", "import importlib\nimportlib.import_module('agent.report')", "agent.report"),
        ("workers.job", "try:\n    from keeper import cards\nexcept ImportError:\n    pass", "keeper.cards"),
        ("keeper.watch", "class A:\n    from workers.watch import x", "workers.watch"),
        ("keeper.watch", "if TYPE_CHECKING:\n    import bot.app", "bot.app"),
        ("bot.app", "import overnight", "overnight"),
        ("bot.app", "from prompts import TEXTS", "prompts"),
        ("bot.simulator.page", "from lab.plan import Plan", "lab.plan"),
        ("bot.simulator.page", "from bot.render import text", "bot.render"),
        ("terminal.doctor", "from agent.desk import model_door", "agent.desk"),
        ("terminal.doctor", "def f():\n    from agent.intake import x", "agent.intake"),
        ("overnight", "from lab.settings import load", "lab.settings"),
        ("agent.planner", "import openai", "openai"),
        ("keeper.cards", "def f():\n    import pynvml as nvml", "pynvml"),
        ("lab.events", "from slack_sdk import WebClient", "slack_sdk"),
        ("workers.job", "import mlflow.pytorch", "mlflow"),
        ("bot.app", "import redis\nclient = redis.Redis()", "Redis"),
        (
            "bot.app",
            "from redis import Redis\nclient = Redis.from_url('redis://h')",
            "from_url",
        ),
    ],
)
def test_an_import_against_the_arrows_is_found(module: str, source: str, named: str) -> None:
    """Wherever it hides: in a function, a class, a try, behind TYPE_CHECKING, relative or by name."""
    found = problems(module, source)

    assert len(found) == 1
    assert named in found[0]
    assert found[0].startswith(f"{module}:")


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("lab.plan", "import json\nfrom lab.run import Record\nfrom . import run"),
        ("agent.model", "import openai\nfrom lab.plan import Plan\nfrom prompts import PLAN"),
        ("bot.app", "from slack_bolt import App\nfrom bot.render import plan\nfrom lab.store import connect"),
        ("bot.simulator.api.chat", "from bot.simulator.refusal import Json\nfrom ..limits import Limits"),
        ("terminal.doctor", "def f():\n    from agent.desk import model_door\n    from workers import datasets"),
        ("terminal.demo", "if TYPE_CHECKING:\n    from bot.simulator import Simulator"),
        ("overnight", "def f():\n    from bot.app import main\n    from terminal.demo import run"),
        ("lab.store", "import redis\nredis.Redis()"),
        ("lab.events", "import redis\nx: redis.Redis"),
    ],
)
def test_an_import_along_the_arrows_is_not(module: str, source: str) -> None:
    """The test must not stand in the way of what the design wants."""
    assert problems(module, source) == []


def test_an_import_added_to_the_real_tree_is_found(tmp_path: Path) -> None:
    """From the file on, not only for sources made up here."""
    (tmp_path / "overnight.py").write_text("")
    (tmp_path / "keeper").mkdir()
    added = (ROOT / "keeper" / "main.py").read_text() + "\nfrom workers.checkpoint import save\n"
    (tmp_path / "keeper" / "main.py").write_text(added)

    found = [problem for module, file in sources(tmp_path).items() for problem in problems(module, file.read_text())]
    line = added.count("\n")
    assert found == [f"keeper.main:{line} imports workers.checkpoint.save, and keeper may import lab"]


def test_torch_is_found_behind_other_modules() -> None:
    """It comes in by the back door: a module that imports a module that imports it, or a package around it."""
    graph = {
        "bot": [Import("bot.plots.draw", 1, lazy=False)],
        "bot.plots": [Import("torch.nn", 1, lazy=False)],
        "bot.app": [],
        "lab.a": [Import("lab.b.x", 1, lazy=False)],
        "lab.b": [Import("lab.a", 1, lazy=False), Import("torch", 2, lazy=True)],
        "keeper.watch": [Import("bot.app.main", 1, lazy=False)],
    }

    assert way_to_heavy("keeper.watch", graph) == "keeper.watch -> bot -> bot.plots -> torch"
    assert way_to_heavy("lab.a", graph) is None
