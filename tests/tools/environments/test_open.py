"""Environments by name (003-29)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

import tools.environments as environments
from toolcrib import Environment, EnvironmentFailed
from tools.environments import known_environments, open_environment, register_environment


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(environments, "_registered", {})
    return


def test_an_unknown_name_lists_the_known_ones() -> None:
    """003-29"""
    register_environment("moon", lambda: None)  # type: ignore[arg-type, return-value]  # never opened
    assert known_environments() == ["docker", "local", "moon", "ssh"]
    with pytest.raises(EnvironmentFailed, match="unknown environment 'mars'; known: docker, local, moon, ssh"):
        open_environment("mars")


def test_a_registered_one_gets_its_options(env: Environment) -> None:
    """003-29"""
    seen: list[object] = []

    def factory(**options: object) -> Environment:
        seen.append(options)
        return env

    register_environment("local", factory)
    assert open_environment("local", image="x") is env
    assert seen == [{"image": "x"}]


def test_options_that_it_does_not_take_are_named() -> None:
    with pytest.raises(EnvironmentFailed, match=r"'local' cannot be opened with image: .*image"):
        open_environment("local", image="x")
    with pytest.raises(EnvironmentFailed, match="pass_env takes a list"):
        open_environment("local", pass_env="HOME")


def test_what_a_factory_gets_wrong_is_told_with_its_name() -> None:
    """003-29"""

    def broken() -> Environment:
        raise KeyError("socket")

    register_environment("moon", broken)
    with pytest.raises(EnvironmentFailed, match="'moon' cannot be opened: KeyError: 'socket'"):
        open_environment("moon")
    register_environment("moon", lambda: None)  # type: ignore[arg-type, return-value]  # what is tested
    with pytest.raises(EnvironmentFailed, match="'moon' opened NoneType, which has no execute, spawn, shell_state"):
        open_environment("moon")


def test_the_local_one_is_imported_when_it_is_opened() -> None:
    code = "import sys, tools.environments, tools.terminal_tool; assert 'tools.environments.local' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
