"""What starting costs: heavy libraries stay away until they are used, and importing a module does nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

HEAVY = (
    "rich", "prompt_toolkit", "httpx", "docker", "paramiko", "pydantic", "ruamel", "yaml", "importlib.metadata", "requests",
    "docstring_parser", "cryptography", "psycopg",
)  # fmt: skip


def fresh(code: str, cwd: Path, *, expect: int = 0) -> str:
    """The last line that ``code`` prints in an interpreter of its own."""
    # Measuring coverage would load modules of its own.
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
    assert [name for name in HEAVY if name in loaded] == []


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
