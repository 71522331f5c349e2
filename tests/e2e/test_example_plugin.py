"""The example plugin, built and installed for real: if enabled, it adds all that plugins can add; otherwise it does nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.forks import Forks

pytestmark = pytest.mark.e2e
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the installed wheel. pip installs it without a network."""
    source, target = tmp_path_factory.mktemp("source") / "hello-plugin", tmp_path_factory.mktemp("site")
    shutil.copytree(root / "examples" / "hello-plugin", source, ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet", "--no-compile"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(source)],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "PIP_NO_CACHE_DIR": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    yield target
    shutil.rmtree(target)


@pytest.fixture
def run(site: Path, tmp_path: Path, forks: Forks) -> Run:
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    return partial(forks.run, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})


@pytest.fixture
def enabled(run: Run, config: Callable[[str], Path]) -> Run:
    config("plugins:\n  enabled: [hello]\n")
    return run


PROD = '{"command": "echo kubectl --context prod get pods"}'


def test_installed_but_not_enabled_nothing_of_it_is_active(run: Run) -> None:
    """003-5: only enabled plugins are active."""
    listed = run("plugins").stdout
    assert "toolcrib-hello" in listed
    assert " off " in listed
    assert "greet" not in run("tools").stdout
    assert "friendly" not in run("toolsets").stdout
    assert run("call", "terminal", PROD).returncode == 0
    unknown = run("hello", "Ada")
    assert unknown.returncode == 2
    assert "unknown command 'hello'" in unknown.stderr


def test_enabled_it_adds_a_tool(enabled: Run) -> None:
    """003-5: a pip entry point."""
    assert "greet" in enabled("tools").stdout
    called = enabled("call", "greet", '{"name": "Ada", "shout": "true"}')
    assert (called.returncode, json.loads(called.stdout)) == (0, "HELLO, ADA!")


def test_enabled_it_adds_a_toolset(enabled: Run) -> None:
    shown = enabled("toolsets", "show", "friendly").stdout
    assert "greet" in shown
    assert "clarify" in shown


def test_enabled_its_gate_blocks(enabled: Run) -> None:
    """002-21: any plugin can block a call."""
    blocked = enabled("call", "terminal", PROD)
    assert blocked.returncode == 3
    assert "keeps commands away from prod" in json.loads(blocked.stdout)["error"]
    chat = enabled("chat", stdin=f'@terminal {PROD}\n@terminal {{"command": "echo fine"}}\n')
    assert "keeps commands away from prod" in chat.stdout
    assert "kubectl" not in chat.stdout.replace("keeps", "")
    assert "fine" in chat.stdout.splitlines()


def test_enabled_it_adds_a_subcommand(enabled: Run) -> None:
    done = enabled("hello", "Ada", "--shout")
    assert (done.returncode, done.stdout) == (0, "HELLO, ADA!\n")
    assert "Print a greeting, from the example plugin." in enabled("--help").stdout
    assert enabled("doctor").returncode == 0
