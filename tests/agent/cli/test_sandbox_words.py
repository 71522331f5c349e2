"""The line about the sandbox at the start of the chat."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent.backends import Backends
from agent.cli.sandbox_words import SandboxStatus, first_line, status_rows
from agent.config import load_config
from toolcrib import Containment, EnvironmentFailed
from tools.environments.local.holding import SandboxHolding, sandbox_here

UNDO = " /undo reverts what they change in the project."
HELD = sandbox_here("workspace")
Config = Callable[[str], Path]


def line(backend: str = "local", start: str | Path = "/usr") -> str:
    config = load_config()
    return first_line(config, Backends(config, []).get(backend), str(start))


def test_commands_without_a_sandbox_are_named(config: Config) -> None:
    config("sandbox: {mode: none}\n")
    assert line() == "Commands are not sandboxed." + UNDO
    assert line("bubblewrap") == ""


@pytest.mark.xdist_group("bubblewrap")
@pytest.mark.skipif(HELD.mode != "workspace", reason=f"no sandbox can be made here: {HELD.why_not_more}")
def test_it_says_what_commands_can_change(config: Config) -> None:
    default = "Commands write only this project, private caches and a private /tmp. They reach only hosts that you allow."
    assert line() == f"{default}" + UNDO
    config("snapshots: {enabled: false}\n")
    assert line() == default
    config("sandbox: {mode: own, network: 'on'}\n")
    assert line().startswith("Commands cannot reach toolcrib's own files, but otherwise have all your rights.")
    config("sandbox: {mode: workspace, network: 'on'}\n")
    assert line() == "Commands write only this project, private caches and a private /tmp." + UNDO
    assert line(start=Path.home()) == "Commands write only your home folder, private caches and a private /tmp."
    assert line(start="/") == "Commands write only private caches and a private /tmp."
    with pytest.raises(EnvironmentFailed, match="choose a folder below it"):
        line(start=tempfile.gettempdir())
    config(f"sandbox: {{mode: workspace, write: [{Path.home()}/other], caches: shared, network: none}}\n")
    assert line() == ("Commands write only this project, ~/other, your caches and a private /tmp. They have no network." + UNDO)
    config("sandbox: {mode: workspace, network: hosts}\n")
    assert line().startswith(default)
    config("sandbox: {mode: own, network: hosts}\n")
    assert line().endswith(" They reach only hosts that you allow." + UNDO)


def test_a_mode_that_does_not_hold_is_named(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    config("sandbox: {mode: workspace}\n")
    monkeypatch.setattr("tools.environments.local.holding.is_supported", lambda: False)
    assert (
        line()
        == "Commands are not sandboxed. sandbox.mode workspace does not work here; for the reason: toolcrib sandbox." + UNDO
    )


@pytest.mark.parametrize("mode", ["workspace", "own"])
def test_landlock_is_named_with_its_limits(config: Config, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    config(f"sandbox: {{mode: {mode}}}\n")
    held = SandboxHolding("own", "" if mode == "own" else "no namespaces", "a fix", "landlock")
    monkeypatch.setattr("tools.environments.local.holding.sandbox_here", lambda wanted: held)
    assert "Only Landlock enforces this, so sockets and file tools are not limited." in line()


@pytest.mark.parametrize(("machine", "words"), [("x86_64", "filtered"), ("riscv64", "all: no filter for riscv64")])
def test_the_status_says_whether_system_calls_are_filtered(monkeypatch: pytest.MonkeyPatch, machine: str, words: str) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine=machine))
    held = Containment("workspace", ("/work",), (), (), (), "none")
    rows = dict(status_rows(SandboxStatus("local", "workspace", SandboxHolding("workspace", by="namespaces"), held, [])))
    assert rows["system calls"] == words
