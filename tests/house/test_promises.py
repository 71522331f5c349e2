"""Promises to other people's programs, plugins, files and stores are kept: ``promises/`` has lists and samples of them.

A name that changes gets an alias that warns; its old name stays in the lists. ``python tests/house/promises/listing.py`` adds new
names, and reports missing ones.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer

HERE = Path(__file__).with_name("promises")
COMMAND = str(Path(sys.executable).with_name("toolcrib"))
OLD_NAMES = {"models": "model_choice.models", "run": "api"}
"""Modules that the sample imports by names of version 1."""
PUSHES = ("terminal", {"command": "git push --force origin main"})


def _listing() -> Any:
    spec = importlib.util.spec_from_file_location("listing", HERE / "listing.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LISTING = _listing()


@pytest.mark.parametrize("name", sorted(LISTING.LISTS))
def test_everything_promised_is_there(name: str) -> None:
    assert LISTING.gone(name, LISTING.LISTS[name]()) == []


@pytest.mark.parametrize(
    ("now", "is_kept"),
    [
        ("f(a, *, b=...)", True),
        ("f(a, *, b=..., c=...)", True),
        ("f(a, *, c=..., b=...)", True),
        ("f(a, *, b=..., c)", False),
        ("f(a, *)", False),
        ("f(*, a, b=...)", False),
    ],
)
def test_only_optional_parameters_may_be_added(now: str, is_kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LISTING, "kept", lambda name: ["f(a, *, b=...)"])
    assert LISTING.gone("python", [now]) == ([] if is_kept else ["f(a, *, b=...)"])


@pytest.mark.parametrize(("now", "is_kept"), [("-x VALUE {a,new,b}", True), ("-x VALUE {a}", False), ("-x VALUE", False)])
def test_only_choices_may_be_added(now: str, is_kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LISTING, "kept", lambda name: ["-x VALUE {a,b}"])
    assert LISTING.gone("commands", [now]) == ([] if is_kept else ["-x VALUE {a,b}"])


def _ran(*argv: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    who = ("-c", "user.name=ann", "-c", "user.email=ann@example.org")
    for words in (
        ("init", "-q", "-b", "main"), ("init", "-q", "--bare", "origin.git"), ("remote", "add", "origin", "./origin.git"),
        ("commit", "-q", "--allow-empty", "-m", "first"),
    ):  # fmt: skip
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


@pytest.mark.full
def test_a_program_that_embeds_it_runs_unchanged(repository: Path, root: Path) -> None:
    text, calls = ChatServer.text, ChatServer.calls
    replies = (
        calls(PUSHES, ids=["a"]), text("It is pushed."), text('{"city": "Oslo"}'),
        calls(PUSHES, ids=["b"]), text("Another day, then."),
    )  # fmt: skip
    with ChatServer(*replies) as server:
        done = _ran(sys.executable, str(HERE / "embedding.py"), server.base_url, cwd=repository, PYTHONPATH=str(root))
    warned = [line.partition("DeprecationWarning: ")[2] for line in done.stderr.splitlines() if not line.startswith("  ")]
    assert warned == [f"agent.{old} is an old name: import agent.{new}" for old, new in OLD_NAMES.items()], done.stderr
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("It is pushed. 2 done {'input': ")
    assert lines[0].endswith("} () None []")
    assert lines[1] == "Oslo True"
    assert "asked approve_tool ['ask'] terminal" in lines
    assert "started terminal {'command': 'git push --force origin main'}" in lines
    assert any(line.startswith("finished succeeded") for line in lines)
    assert "".join(line.removeprefix("text ") for line in lines if line.startswith("text ")).startswith("It is pushed.")
    assert lines[-5:-2] == ["Another day, then.", "succeeded hello terminal", "SessionManager"]
    assert lines[-2].startswith('True {"error": "Error executing nothing: Unknown tool: nothing (known: terminal, ')
    assert lines[-1] == "cli MaxTurnsReached"


@pytest.fixture
def with_plugin(config: Callable[[str], Path], repository: Path) -> Path:
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "toolcrib" / "plugins"
    folder.mkdir(parents=True)
    shutil.copy(HERE / "plugin.py", folder / "kept.py")
    config("plugins: {enabled: [kept], settings: {kept: {greeting: hello}}}\n")
    return repository


@pytest.mark.full
def test_a_plugin_works_unchanged(with_plugin: Path) -> None:
    text, calls = ChatServer.text, ChatServer.calls
    two = [("greet", {"name": "Ada"}), ("shout", {}), ("terminal", {"command": "echo forbidden"})]
    with ChatServer(
        calls(*two, ids=["a", "b", "c"]), calls(("terminal", {"command": "echo fine"}), ids=["d"]), text("Done.")
    ) as server:
        done = _ran(COMMAND, "run", "Greet.", "--model", "m", "--base-url", server.base_url, "--json", cwd=with_plugin)
    assert (done.returncode, done.stderr) == (0, "")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    results = {event["id"]: event for event in events if event["type"] == "tool_finished"}
    assert results["a"]["result"] == "Hello, Ada!"
    assert results["b"]["result"] == "quiet"
    assert "not here" in results["c"]["error"]
    seen = (with_plugin / "seen.txt").read_text("utf-8").splitlines()
    for line in (
        "configure hello True plain", "on_start", "on_session_start cli", "on_run_start True", "pre_llm_call m chat",
        "post_llm_call  3 test-model tool_calls", "tool_gate greet greet True", "pre_tool_call greet cli",
        "post_tool_call greet True", "tool_gate terminal terminal True", "on_decision allowed rule",
        "post_llm_call Done. 0 test-model stop", "on_run_end done ", "on_session_end cli", "on_stop",
    ):  # fmt: skip
        assert line in seen
    assert "kept-set" in _ran(COMMAND, "toolsets", cwd=with_plugin).stdout


@pytest.mark.full
def test_a_configuration_is_read_unchanged(tmp_path: Path) -> None:
    kept = tmp_path / "config.yaml"
    shutil.copy(HERE / "config.yaml", kept)
    done = _ran(COMMAND, "config", "check", "--config", str(kept), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for key, value in (
        ("approval.mode", "cautious"), ("sandbox.mode", "own"), ("terminal.timeout", "60"), ("run.max_tokens", "2000"),
        ("toolsets.custom.mine.tools", '["read_file"]'),
    ):  # fmt: skip
        shown = _ran(COMMAND, "config", "get", key, "--config", str(kept), cwd=tmp_path)
        assert (shown.returncode, shown.stdout.strip()) == (0, value)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    file = Path(os.environ["XDG_STATE_HOME"]) / "toolcrib" / "toolcrib.db"
    file.parent.mkdir(parents=True, mode=0o700)
    file.write_bytes(gzip.decompress((HERE / "store.db.gz").read_bytes()))
    file.chmod(0o600)
    return tmp_path


@pytest.mark.full
def test_a_store_is_read_unchanged_and_goes_on(store: Path) -> None:
    """Two sessions wait for an answer and one has ended; a job is due every two hours."""
    listed = json.loads(_ran(COMMAND, "sessions", "list", "--all", "--json", cwd=store).stdout)
    assert {one["title"] for one in listed} == {"Does it build?", "Push it.", "Push it again."}
    ended = next(one["id"] for one in listed if one["title"] == "Does it build?")
    shown = _ran(COMMAND, "sessions", "show", ended, cwd=store).stdout
    assert "It builds." in shown
    assert "echo built > out.txt" in shown
    pending = json.loads(_ran(COMMAND, "approvals", "pending", "--json", cwd=store).stdout)
    assert [one["parameters"]["command"] for one in pending] == ["git push --force origin main"] * 2
    (job,) = json.loads(_ran(COMMAND, "cron", "list", "--json", cwd=store).stdout)
    assert (job["name"], job["schedule"], job["task"]) == ("tidy", "every 2 hours", "Tidy the folder.")
    with ChatServer(ChatServer.text("Still.")) as server:
        options = ("--model", "m", "--base-url", server.base_url)
        again = _ran(COMMAND, "run", "And now?", "--resume", ended, *options, cwd=store)
    assert (again.returncode, again.stdout.strip()) == (0, "Still.")
    file = Path(os.environ["XDG_STATE_HOME"]) / "toolcrib" / "toolcrib.db"
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
