"""Tests of the report of `toolcrib doctor` about the sandbox of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from agent.cli.sandbox_checks import check_sandbox
from agent.config import Config, SandboxSettings
from toolcrib.contract.dataclass import replace
from tools.environments.local import holding
from tools.environments.local.holding import sandbox_here


def _config(mode: Literal["workspace", "own", "none"]) -> Config:
    return replace(Config(path=Path("/none")), sandbox=SandboxSettings(mode=mode, network="on"))


@pytest.mark.parametrize("mode", ["workspace", "own"])
def test_doctor_says_which_mode_holds(mode: Literal["workspace", "own"], monkeypatch: pytest.MonkeyPatch) -> None:
    if sandbox_here(mode).by == "namespaces":
        (finding,) = check_sandbox(_config(mode))
        assert (finding.id, finding.level) == ("sandbox.holds", "ok")
        assert f"a sandbox with mode {mode}" in finding.text
    monkeypatch.setattr(holding, "_fault", lambda: "unshare: Operation not permitted")
    monkeypatch.setattr("tools.environments.local.landlock.version", lambda: 1)
    (finding,) = check_sandbox(_config(mode))
    assert (finding.id, finding.level) == ("sandbox.weak", "note")
    assert "unshare: Operation not permitted" in finding.text
    assert finding.fix
    monkeypatch.setattr("tools.environments.local.landlock.version", lambda: 0)
    (finding,) = check_sandbox(_config(mode))
    assert (finding.id, finding.level) == ("sandbox.none", "wrong")
    assert finding.text.startswith("commands on this machine are not sandboxed")


def test_doctor_says_whether_hosts_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(mode: Literal["workspace", "own", "none"]) -> tuple[str, str]:
        config = replace(_config(mode), sandbox=SandboxSettings(mode=mode, network="hosts"))
        (finding,) = (one for one in check_sandbox(config) if one.id == "sandbox.hosts")
        return finding.level, finding.text

    if sandbox_here("workspace").by == "namespaces":
        assert said("workspace")[0] == "ok"
        assert said("own") == ("note", "sandbox.network: hosts needs mode workspace, so commands have no network")
    assert said("none") == ("note", "sandbox.network: hosts needs mode workspace, so commands have the whole network")
    monkeypatch.setattr(holding, "_fault", lambda: "unshare: Operation not permitted")
    assert said("workspace")[1].endswith("so commands have the whole network")


def test_doctor_says_what_could_be_held() -> None:
    (finding,) = check_sandbox(_config("none"))
    assert (finding.id, finding.level) == ("sandbox.off", "ok")
    assert finding.text.startswith("commands on this machine are not sandboxed (sandbox.mode: none); ")
