"""The trial of a sandbox that isolates, and of one that does not isolate as it claims."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.backends import Backend, Backends, Location
from agent.config import load_config
from agent.policy.self_protection import folders_of
from agent.sandbox_trial import try_sandbox
from toolcrib import Containment, Environment, EnvironmentFailed, ExecOutcome, ExecRequest
from toolcrib.contract.dataclass import replace
from tools.environments.local import LocalEnvironment
from tools.environments.local.holding import sandbox_here

pytestmark = pytest.mark.xdist_group("bubblewrap")


class Pretending(LocalEnvironment):
    """An environment that claims to be a sandbox, and is not one."""

    def containment(self) -> Containment:
        return Containment("workspace", (self.cwd,), (), (str(Path.home() / ".ssh"),), (), "none")

    async def execute(self, request: ExecRequest) -> ExecOutcome:
        return await super().execute(replace(request, command=request.command.replace("do sleep 60", "do sleep 0")))


class PretendingBackends(Backends):
    """Opens environments that are not sandboxes."""

    def open(self, location: Location, session: str, *, continues: bool = False) -> Environment:
        return Pretending(location.start)


@pytest.fixture
def backends() -> Backends:
    return Backends(load_config(), [str(folder) for folder in folders_of(load_config())])


@pytest.fixture
def key() -> Path:
    """A made-up key in the home of this test."""
    key = Path.home() / ".ssh" / "id_test"
    key.parent.mkdir(mode=0o700, exist_ok=True)
    key.write_text("no key\n")
    return key


def _mode_holds() -> None:
    held = sandbox_here("workspace")
    if held.mode != "workspace":
        pytest.skip(f"no sandbox can be made here: {held.why_not_more}")


def test_a_sandbox_that_holds_has_no_problem(backends: Backends, key: Path, tmp_path: Path) -> None:
    _mode_holds()
    config = load_config()
    config.folder.mkdir(parents=True, exist_ok=True)
    (config.folder / "config.yaml").write_text("")
    found = try_sandbox(backends, backends.get("bubblewrap"), str(tmp_path), folders_of(config))
    assert [one for one in found if one.problem] == []
    tried = [one.what for one in found if not one.untried]
    assert "the project can be written" in tried
    assert "keys can't be read: .ssh" in tried
    assert "/tmp is private" in tried
    assert "the network is closed" in tried
    assert "the number of processes is limited" in tried
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - names are wanted


def test_each_promise_that_does_not_hold_is_named(backends: Backends, key: Path, tmp_path: Path) -> None:
    config = load_config()
    config.folder.mkdir(parents=True, exist_ok=True)
    pretending = PretendingBackends(config, [])
    backend = Backend("local", "local", options={"processes": 1})
    found = try_sandbox(pretending, backend, str(tmp_path), [config.folder])
    problems = {one.what: one.problem for one in found if one.problem}
    home = Path.home().resolve()
    assert problems.pop(f"files outside the project can't be written: {home}") == f"commands can write {home}"
    assert problems.pop("keys can't be read: .ssh") == f"commands can read {home / '.ssh'}"
    assert problems.pop("/tmp is private").startswith("commands see this machine's")
    assert problems.pop("toolcrib's own files can't be read or written") == f"commands can write {config.folder.resolve()}"
    assert problems.pop("the network is closed").startswith("commands reach services at 127.0.0.1")
    assert problems.pop("the number of processes is limited") == "128 processes ran with a limit of 64"
    assert problems == {}
    left = [*tmp_path.iterdir(), *config.folder.iterdir(), *Path.home().glob(".toolcrib-test-*")]
    assert left == []


def test_hosts_that_are_not_limited_are_named(backends: Backends, tmp_path: Path) -> None:
    class Open(Pretending):
        def containment(self) -> Containment:
            return replace(super().containment(), network="hosts")

    class OpenBackends(Backends):
        def open(self, location: Location, session: str, *, continues: bool = False) -> Environment:
            return Open(location.start)

    found = try_sandbox(
        OpenBackends(load_config(), []), Backend("local", "local", options={"processes": 1}), str(tmp_path), [tmp_path]
    )
    problems = {one.what: one.problem for one in found if one.problem}
    assert problems["the network reaches only allowed hosts"].startswith("commands reach services at 127.0.0.1")


def test_no_sandbox_is_no_success(config: Callable[[str], Path], tmp_path: Path) -> None:
    config("sandbox: {mode: none}\n")
    backends = Backends(load_config(), [])
    with pytest.raises(EnvironmentFailed, match="commands are not sandboxed"):
        try_sandbox(backends, backends.get("local"), str(tmp_path), [])
