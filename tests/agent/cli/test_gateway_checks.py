"""Tests of the report of `toolcrib doctor` about the gateway."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.cli.gateway_checks import check_gateway
from agent.config import load_config
from agent.gateway.gateway import Gateway
from agent.gateway.pairing import Pairings
from agent.process import Crib
from agent.store._owner import new_owner
from agent.store.memory import MemoryStore
from toolcrib import ConfigError
from toolcrib.contract.state import StateWrite
from toolcrib.testing import FakePlatform
from tools.dispatch.bridge import run_async

Look = Callable[..., list[str]]
OWNED = "platforms: {fake: {roles: {owner: [ann]}}}\n"


class Bench:
    """Makes cribs over one store, and checks their gateway."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = MemoryStore()
        self.factory: Callable[..., FakePlatform] = FakePlatform

    def crib(self, text: str) -> Crib:
        (self.folder / "config.yaml").write_text(text)
        crib = assemble(config=load_config(self.folder / "config.yaml"), project_dir=self.folder, store=self.store)
        crib._add_platform("fake", self.factory)
        return crib

    def found(self, text: str = OWNED) -> list[str]:
        """Return each finding as ``LEVEL: TEXT (FIX)``."""
        with self.crib(text) as crib:
            return [f"{one.level}: {one.text} ({one.fix})" for one in check_gateway(crib)]

    def write_status(self, **told: Any) -> None:
        """Record the status that a gateway reports for the platform."""
        value = {"state": "running", "account": "fake-bot", "problem": "", "pid": 4711, "at": time.time(), **told}
        run_async(self.store.state.write([StateWrite("profile", "gateway:fake", "status", value)]))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    return Bench(tmp_path)


def test_a_sound_platform_is_well(bench: Bench) -> None:
    assert bench.found() == ["ok: fake accepts connections as fake-bot ()"]


@pytest.mark.parametrize(
    ("keys", "level", "told"),
    [
        ("allowed_users: [bob], allow_local: true", "note", "users other than the owner can run commands on this machine"),
        ("allowed_users: ['*'], allow_local: true", "wrong", "anyone who writes can run commands on this machine"),
        ("roles: {owner: ['*']}", "wrong", "anyone who writes is the owner"),
        ("roles: {owner: [ann], helpers: ['*']}, allow_local: true", "wrong", "anyone who writes can run commands"),
        ("backend: moon", "wrong", "platforms.fake.backend: there is no backend 'moon'"),
        ("strangers: told", "note", "no user may chat there yet (toolcrib gateway pair fake --role owner)"),
    ],
)
def test_who_may_do_too_much_or_nothing_is_told(bench: Bench, keys: str, level: str, told: str) -> None:
    assert [one for one in bench.found(f"platforms: {{fake: {{{keys}}}}}\n") if one.startswith(level) and told in one]


@pytest.mark.parametrize("keys", ["allowed_users: ['*']", "allowed_users: ['*'], allow_local: true, backend: docker"])
def test_anybody_is_welcome_where_nothing_of_ours_can_be_reached(bench: Bench, keys: str) -> None:
    assert not [one for one in bench.found(f"platforms: {{fake: {{{keys}}}}}\n") if "on this machine" in one]


def test_what_nobody_could_agree_to_is_told_with_the_role_that_it_takes(bench: Bench) -> None:
    approvers = "gateway: {approvers: {git: [release], fs: [owner, release]}}\n"
    found = bench.found(OWNED + approvers)
    [git] = [one for one in found if "git" in one]
    assert git.startswith("wrong: no user on fake may approve git: it needs the role release (give the role to a user in ")
    assert git.endswith("or: toolcrib gateway pair fake --role release)")
    assert not [one for one in found if "approve fs" in one]
    people = Pairings(bench.store, "fake")
    code = run_async(people.offer("release"))
    run_async(people.take(code, "rita"))
    assert not [one for one in bench.found(OWNED + approvers) if "git" in one]
    [only] = [one for one in bench.found("platforms: {fake: {allowed_users: [bob]}}\n") if "anything else" in one]
    assert only.startswith("note: no user on fake may approve anything else: it needs the role owner")


def test_a_mistyped_finding_among_the_approvers_is_named(bench: Bench) -> None:
    own = "approval: {rules: [{key: own.rule, level: ask, command: deploy, why: deploys, example: deploy}]}\n"
    names = "{fs.recursive-delet: [owner], git: [owner], git.push-force: [owner], own.rule: [owner], shop.refund: [owner]}"
    found = bench.found(f"{OWNED}{own}gateway: {{approvers: {names}}}\n")
    [only] = [one for one in found if "approvers: no rule" in one]
    assert only.startswith("note: gateway.approvers: no rule finds fs.recursive-delet, so this line has no effect; ")
    assert "did you mean fs.recursive-delete?" in only


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConfigError("fake needs FAKE_TOKEN"), "wrong: cannot connect to fake: fake needs FAKE_TOKEN (follow the message"),
        (ConfigError("it needs the extra: pip install 'toolcrib[fake]'"), "pip install 'toolcrib[fake]'"),
        (OSError("connection refused"), "wrong: cannot connect to fake: OSError: connection refused"),
    ],
)
def test_what_keeps_a_platform_from_connecting_is_told(bench: Bench, error: Exception, told: str) -> None:
    class Unready(FakePlatform):
        async def connect(self) -> str:
            raise error

    bench.factory = Unready
    assert [one for one in bench.found() if told in one]


@pytest.mark.parametrize("is_running", [False, True])
def test_what_a_platform_lacks_is_told_with_what_to_do(bench: Bench, is_running: bool) -> None:
    class Lacking(FakePlatform):
        shortcomings = (("secret rooms can't be read", "pip install 'toolcrib[fake-e2e]'"),)

    bench.factory = Lacking
    if is_running:
        bench.write_status()
    found = bench.found()
    assert found[1:] == ["note: fake: secret rooms can't be read (pip install 'toolcrib[fake-e2e]')"]
    assert found[0].startswith("ok: fake")


def test_a_platform_that_a_gateway_runs_is_left_alone(bench: Bench) -> None:
    class Untouchable(FakePlatform):
        async def connect(self) -> str:
            raise AssertionError("connected to")

    bench.factory = Untouchable
    bench.write_status()
    assert bench.found() == ["ok: fake: the gateway is process 4711, running ()"]
    bench.write_status(state="failed", problem="OSError: connection refused")
    assert "wrong: fake is down: OSError: connection refused" in bench.found()[0]


def test_what_a_process_left_behind_is_told(bench: Bench) -> None:
    bench.write_status(at=time.time() - 7_200)
    [died] = bench.found()
    assert died.startswith("note: fake: the gateway's process 4711 died 2 h ago (toolcrib gateway run; unfinished runs resume")
    owner = new_owner()
    run_async(bench.store.leases.take("account:fake:fake-bot", owner, 30.0))
    [found] = bench.found()
    assert found.startswith(
        f"wrong: fake: process {owner.partition(':')[0]} holds the account fake-bot, but has not reported for 2 h"
    )
    bench.write_status(state="stopped", at=time.time() - 7_200)
    assert "holds the account" in bench.found()[0]


def test_a_port_that_another_program_has_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    class Listener(FakePlatform):
        async def connect(self) -> str:
            return f"127.0.0.1:{port}"

    bench.factory = Listener
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = bench.found(f"{OWNED}gateway: {{port: {port}}}\n")
        assert [one for one in found if one.startswith(f"wrong: fake cannot listen at 127.0.0.1:{port}: Address already in use")]
        if importlib.util.find_spec("prometheus_client") is not None:
            assert [one for one in found if one.startswith(f"wrong: gateway.port: 127.0.0.1:{port}: Address already in use")]
    assert not [one for one in bench.found(f"{OWNED}gateway: {{port: {port}}}\n") if "in use" in one]


def test_an_account_at_a_server_is_no_address_to_listen_at(bench: Bench) -> None:
    class Caller(FakePlatform):
        async def connect(self) -> str:
            return "crib@irc.example.org:6697"

    bench.factory = Caller
    assert bench.found() == ["ok: fake accepts connections as crib@irc.example.org:6697 ()"]


def test_a_port_without_the_extra_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.cli.gateway_checks.find_spec", lambda name: None)
    assert any("pip install 'toolcrib[gateway]'" in one for one in bench.found(f"{OWNED}gateway: {{port: 1}}\n"))


@pytest.mark.parametrize(
    ("name", "wrong", "meant"),
    [
        ("console", "sockett", "did you mean socket?"),
        ("matrix", "homserver", "did you mean homeserver?"),
        ("telegram", "edit_second", "did you mean edit_seconds?"),
        ("telegram", "colour", "known: base_url, proxy, per_second, edit_seconds, max_edits"),
        ("webhook", "prot", "did you mean port?"),
    ],
)
def test_a_setting_that_a_platform_has_not_is_told_with_its_place(bench: Bench, name: str, wrong: str, meant: str) -> None:
    """The error is reported when the gateway starts and in doctor, before a connection is opened."""
    lines = ["plugins:", f"  enabled: [{name}]", "platforms:", f"  {name}:", "    settings:", f"      {wrong}: 'x'"]
    says = f"{bench.folder / 'config.yaml'}:6: platforms.{name}.settings.{wrong}: unknown setting; {meant}"
    [found] = [one for one in bench.found("\n".join(lines)) if f"connect to {name}" in one]
    assert found == f"wrong: cannot connect to {name}: {says} (follow the message, then start the gateway)"

    async def started() -> tuple[str, bool]:
        async with Gateway(bench.crib("\n".join(lines)), names=[name]) as gateway:
            return gateway.lines[0].problem, gateway.lines[0].needs_somebody

    assert asyncio.run(started()) == (f"ConfigError: {says}", True)
