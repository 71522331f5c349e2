"""``toolcrib explain`` in a sandbox: for each finding, whether the sandbox stops it, undo reverts it, or the user is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.cli.explained import explanation_lines
from agent.config import Config
from agent.explaining import Explanation
from toolcrib import Containment
from tools.approval.policy import Weighed
from tools.environments.local import LocalEnvironment, environment
from tools.environments.local.holding import sandbox_here
from tools.judge.calls import Judgement
from tools.judge.findings import Finding
from tools.judge.layers import Layers

HELD = sandbox_here("workspace")


@pytest.fixture
def boxed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plain: object) -> Callable[..., None]:
    """Make the local backend report a sandbox around the project."""

    def one(network: Any = "on") -> None:
        held = Containment("workspace", (str(tmp_path),), (), (), (), network)

        class Boxed(LocalEnvironment):  # not LocalEnvironment itself: isinstance remembers the classes that have the method
            def containment(self) -> Containment:
                return held

        monkeypatch.setattr(environment, "LocalEnvironment", Boxed)

    return one


def test_what_the_sandbox_stops_is_explained(run: Any, boxed: Callable[..., None]) -> None:
    """003-24"""
    assert run("explain", "rm -rf /opt/x").code == 1
    boxed()
    done = run("explain", "rm -rf /opt/x")
    assert done.code == 0
    assert done.out.startswith("allow: it runs without asking")
    assert "stopped by the sandbox: /opt/x is read-only there" in done.out
    assert "decided by" not in done.out


def test_what_is_asked_is_explained_with_its_reason(run: Any, boxed: Callable[..., None]) -> None:
    boxed()
    done = run("explain", "rm -rf /opt/x; git push --force origin main; rm -rf build")
    assert done.code == 1
    assert "asked: it leaves this machine" in done.out
    assert "asked: snapshots don't cover all of " in done.out
    assert done.out.count("decided by: a user") == 2


def test_the_layer_of_each_finding_as_json(run: Any, boxed: Callable[..., None]) -> None:
    boxed("none")
    explained = json.loads(run("explain", "--json", "git push --force origin main; docker system prune -af").out)
    assert explained["level"] == "ask"
    assert [(one["effect"], one["held_by"], one["held_why"]) for one in explained["findings"]] == [
        ("remote", "sandbox", "stopped by the sandbox: it has no network"),
        ("outside", "person", "asked: it acts outside the sandbox"),
    ]
    assert [one["decided_by"].startswith("a user") for one in explained["findings"]] == [False, True]
    (line,) = run("explain", "--jsonl", stdin=b'{"id": 1, "command": "rm -rf /opt/x"}\n').out.splitlines()
    assert {one["held_by"] for one in json.loads(line)["findings"]} == {"sandbox"}


@pytest.mark.xdist_group("bubblewrap")
@pytest.mark.skipif(HELD.mode != "workspace", reason=f"no sandbox can be made here: {HELD.why_not_more}")
def test_without_a_session_its_sandbox_and_snapshots_count(run: Any, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for command, why in (
        ("rm -rf src", "undone by /undo"),
        ("rm -rf /opt/x", "stopped by the sandbox: /opt/x is read-only there"),
    ):
        done = run("explain", command)
        assert (done.code, why in done.out) == (0, True), done.out
    assert run("explain", "curl -sS https://example.test/x").code == 1


def test_a_cautious_session_is_explained_as_without_a_sandbox(run: Any, boxed: Callable[..., None]) -> None:
    before = run("explain", "rm -rf /opt/x").out
    boxed()
    assert run("explain", "--mode", "cautious", "rm -rf /opt/x").out == before.replace(
        "it runs:", "by the session's mode: cautious\nit runs:"
    )


def test_what_undo_takes_back_is_explained() -> None:
    finding = Finding("fs.recursive-delete", "ask", "deletes", "rm -rf src", paths=("/p/src",), effect="local")
    layers = Layers(("/p",), covers=lambda path: True, reaches_all_covered=True)
    weighed = Weighed(Judgement([finding]), "/p", layers=layers)
    lines = list(explanation_lines(Explanation("rm -rf src", "allow", weighed=weighed), "a person", Config()))
    assert lines[-1] == "      undone by /undo"
