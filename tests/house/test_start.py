"""Cost of a start: heavy libraries are loaded at first use only, and importing a module has no other effect."""

from __future__ import annotations

import ast
import gc
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from toolcrib.contract.regex import Regex

HEAVY = (
    "rich", "prompt_toolkit", "httpx", "docker", "paramiko", "pydantic", "ruamel", "yaml", "importlib.metadata", "requests",
    "docstring_parser", "cryptography", "psycopg", "pygments", "wcwidth",
)  # fmt: skip


def fresh(code: str, cwd: Path, *, expect: int = 0) -> str:
    """Return the last line that ``code`` prints in its own interpreter."""
    # Measuring coverage would load more modules.
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == expect, done.stderr
    return (done.stdout.strip().splitlines() or [""])[-1]


def test_the_tools_are_shown_without_heavy_libraries(root: Path, tmp_path: Path) -> None:
    source = root / "model_tools.py"
    if not source.exists() or "def get_tool_definitions" not in source.read_text(encoding="utf-8"):
        pytest.skip("model_tools.get_tool_definitions is not there yet")
    loaded = json.loads(
        fresh("import json, sys, model_tools; model_tools.get_tool_definitions(); print(json.dumps(list(sys.modules)))", tmp_path)
    )
    assert [name for name in (*HEAVY, "asyncio", "jsonschema_rs", "tools.dispatch.pipeline") if name in loaded] == []


def test_the_version_is_told_without_the_rest(root: Path, tmp_path: Path) -> None:
    if not (root / "agent" / "cli" / "__init__.py").exists() and not (root / "agent" / "cli.py").exists():
        pytest.skip("agent.cli is not there yet")
    code = """
import json, sys
sys.argv = ["toolcrib", "--version"]
from agent.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(list(sys.modules)))
"""
    loaded = json.loads(fresh(code, tmp_path))
    assert [name for name in (*HEAVY, "asyncio", "dataclasses", "pluggy", "model_tools") if name in loaded] == []


FIRST_REQUEST = """
import contextlib, io, json, sys
from toolcrib.testing import ChatServer
from agent.cli import main
loaded = []
with ChatServer(ChatServer.text("Hello.")) as server:
    def hook(event, args):
        if event == "socket.connect" and args[1] == ("127.0.0.1", server.port):
            loaded.append(list(sys.modules))
    sys.addaudithook(hook)
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["run", "--base-url", server.base_url, "--model", "m", "hi"]) == 0
print(json.dumps(loaded[0]))
"""


def test_the_first_request_needs_no_more_than_its_client(tmp_path: Path) -> None:
    """Modules that run calls, judge commands or keep delegates are loaded with the first of them; HTTP/2 never is."""
    loaded = json.loads(fresh(FIRST_REQUEST, tmp_path))
    others = (
        "click", "h2", "httpx._main", "jsonschema_rs", "tools.dispatch.pipeline", "tools.judge.detect", "tools.judge.rules",
        "agent.delegates.task", "agent.delegates.starting", "agent.delegates.waiting", "agent.store.search", "agent.undo",
        "genai_prices",
    )  # fmt: skip
    assert [name for name in ({*HEAVY, *others} - {"httpx"}) if name in loaded] == []
    assert "httpx" in loaded


def test_importing_every_module_does_nothing_else(sources: Sequence[Any], tmp_path: Path) -> None:
    """No output, file, thread, child process, handler or change of the environment."""
    modules = [source.module for source in sources if not source.module.endswith("__main__")]
    code = f"""
import importlib, logging, os, signal, socket, sys, threading
before = dict(os.environ), {{number: signal.getsignal(number) for number in signal.valid_signals()}}, sys.path[:], os.getcwd()
sockets, started = socket.socket, []
class Watched(sockets):
    def __init__(self, *args, **kwargs):
        started.append("socket")
        super().__init__(*args, **kwargs)
socket.socket = Watched
starts = {{"subprocess.Popen", "os.system", "os.posix_spawn", "os.fork"}}
sys.addaudithook(lambda event, args: started.append(event) if event in starts else None)
for name in {modules!r}:
    importlib.import_module(name)
assert not started, started
assert threading.active_count() == 1, threading.enumerate()
assert not logging.getLogger().handlers
assert before[0] == dict(os.environ)
assert before[1] == {{number: signal.getsignal(number) for number in signal.valid_signals()}}
assert before[2:] == (sys.path, os.getcwd())
"""
    home = Path(os.environ["HOME"])
    assert fresh(code, tmp_path) == ""
    assert list(tmp_path.iterdir()) == []
    assert list(home.iterdir()) == []


# -- classes and patterns made at first use (docs/adr/0013) ----------------------------------------------------------------

COUNTED = """
import collections, dataclasses, json, re, sys
made = {"dataclasses": [], "patterns": [], "tuples": []}
OURS = ("toolcrib", "tools", "toolsets", "model_tools", "agent", "plugins")
process, compile_, named = dataclasses._process_class, re.compile, collections.namedtuple

def processed(cls, *options):
    if cls.__module__.partition(".")[0] in OURS:
        made["dataclasses"].append(f"{cls.__module__}.{cls.__qualname__}")
    return process(cls, *options)

def compiled(pattern, flags=0):
    if sys._getframe(1).f_globals["__name__"].partition(".")[0] in OURS:
        made["patterns"].append(str(pattern))
    return compile_(pattern, flags)

def tupled(name, *fields, module=None, **options):
    if str(module).partition(".")[0] in OURS:
        made["tuples"].append(f"{module}.{name}")
    return named(name, *fields, module=module, **options)

dataclasses._process_class, re.compile, collections.namedtuple = processed, compiled, tupled
"""
NAMED = "import model_tools; model_tools.get_tool_definitions()"
EXPLAINED = """
sys.argv = ["toolcrib", "explain", "git push --force origin main"]
import contextlib, io
from agent.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    assert main() == 1
"""


@pytest.mark.parametrize(
    ("what", "most"),
    [
        (NAMED, {"dataclasses": 10, "patterns": 5, "tuples": 0}),
        (EXPLAINED, {"dataclasses": 20, "patterns": 75, "tuples": 3}),
    ],
)
def test_a_start_makes_what_it_uses_and_no_more(tmp_path: Path, what: str, most: dict[str, int]) -> None:
    """There are about 200 classes and 1,000 patterns. If one too many is made: use ``dataclass``, ``Regex`` and ``NamedTuple``
    from toolcrib.contract.dataclass, .regex and .namedtuple, and make sure that importing a module uses none of them.
    """
    made = json.loads(fresh(f"{COUNTED}{what}\nprint(json.dumps(made))", tmp_path))
    assert {kind: names for kind, names in made.items() if len(names) > most[kind]} == {}


def test_no_pattern_is_compiled_where_a_module_is_imported(sources: Sequence[Any]) -> None:
    """Functions may call ``re.compile``; module-level patterns use ``Regex``."""
    wrong = [
        f"{source.path}:{call.lineno}"
        for source in sources
        for call in _at_import(source.tree)
        if ast.unparse(call.func) == "re.compile" and not source.module.startswith("agent.protocols")
    ]
    assert wrong == []


def _at_import(node: ast.AST) -> Iterator[ast.Call]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from _at_import(child)


@pytest.mark.filterwarnings("ignore:agent.* is an old name:DeprecationWarning")
def test_every_pattern_can_be_compiled(sources: Sequence[Any]) -> None:
    """A broken pattern is found here, not by the command that it should have matched."""
    for source in sources:
        if not source.module.endswith("__main__"):
            importlib.import_module(source.module)
    importlib.import_module("tools.judge.rules").all_rules()
    gc.unfreeze()  # objects from the collection of tests are hidden
    patterns = [one for one in gc.get_objects() if isinstance(one, Regex)]
    gc.freeze()
    broken = [f"{one.pattern!r}: {error}" for one in patterns if (error := _fault(one))]
    assert broken == []
    assert len(patterns) > 800


def _fault(regex: Regex[Any]) -> str:
    try:
        regex.search(b"" if isinstance(regex.pattern, bytes) else "")
    except re.error as error:
        return str(error)
    return ""
