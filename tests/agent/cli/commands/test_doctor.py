"""``toolcrib doctor``."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolcrib import registry
from toolcrib.contract.registry import Problem
from toolcrib.testing import ChatServer


def test_all_is_well(run: Any) -> None:
    done = run("doctor")
    assert (done.code, done.err) == (0, "")
    assert "✗" not in done.out
    assert "· no model is configured" in done.out
    assert "fix: toolcrib config set model '{base_url: " in done.out
    assert "no problems found" in done.out


def test_a_broken_configuration_is_told_with_the_rest(run: Any, config: Any) -> None:
    file = config("toolz: {}\nmax_turns: many\n")
    done = run("doctor")
    assert done.code == 1
    assert f"✗ {file}:1" in done.out
    assert f"✗ {file}:2" in done.out
    assert "bash at" in done.out
    assert "built-in tools" in done.out
    assert done.out.count("fix:") >= 3


def test_plugins_and_toolsets_that_fail(run: Any, user_plugin: Any, config: Any) -> None:
    user_plugin("bad", "import nothing_like_it")
    config("plugins: {enabled: [bad, gone]}\ntoolsets: {custom: {a: {includes: [b]}, b: {includes: [a]}}, enabled: [nope]}\n")
    done = run("doctor")
    assert done.code == 1
    assert "✗ plugin bad (user): ModuleNotFoundError" in done.out
    assert "✗ plugin gone (missing)" in done.out
    assert "contains itself: a -> b -> a" in done.out
    assert "unknown toolset 'nope'" in done.out
    assert done.err == ""


FAULTY = """
from toolcrib import hookimpl
from toolcrib.testing import FakeEnvironment

class Stuck(FakeEnvironment):
    async def close(self):
        raise RuntimeError("it is stuck")

@hookimpl
def register_tools(registry):
    registry.register("shy", "faulty", {"description": "d"}, lambda args: 1, dynamic_schema=lambda schema, names: None)

@hookimpl
def register_toolsets(add):
    add("loop", {"includes": ["loop"]})

@hookimpl
def register_environment(add):
    add("stuck", lambda cwd: Stuck(commands={"echo well": (0, b"well\\n")}))
"""


def test_faults_that_show_only_in_use_are_looked_for(run: Any, user_plugin: Any) -> None:
    user_plugin("faulty", FAULTY)
    done = run("doctor")
    assert done.code == 1
    assert "· tool shy: it is missing: its dynamic_schema (toolcrib_plugin_user_faulty) failed: TypeError" in done.out
    assert "fix the plugin that adds 'loop'" in done.out
    assert "✗ backend stuck: it can't be closed: RuntimeError: it is stuck" in done.out
    assert "✓ backend local" in done.out
    assert "✗ stuck" in run("env", "test", "stuck").out
    done = run("call", "read_file", '{"path": "/nothing"}', "--backend", "stuck")
    assert '{"error"' in done.out
    assert "Stuck could not be closed: RuntimeError: it is stuck" in done.err
    assert "Traceback" not in done.err


def test_a_broken_tool_module_is_shown(run: Any) -> None:
    """003-4"""
    registry.problems.append(Problem("module tools.moon_tool", "ImportError: no moon"))
    try:
        done = run("doctor")
    finally:
        registry.problems.pop()
    assert done.code == 1
    assert "✗ module tools.moon_tool: ImportError: no moon" in done.out


def test_tools_that_are_missing_say_why(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """003-9"""
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run("doctor")
    assert done.code == 1
    assert "needs bash to run commands" in done.out
    assert "install bash" in done.out
    assert "tool terminal is missing" in done.out
    assert "· search_files works without ripgrep" in done.out


def test_folders_that_others_may_write(run: Any, config: Any) -> None:
    file = config("")
    state = Path(os.environ["XDG_STATE_HOME"]) / "toolcrib"
    state.mkdir(parents=True)
    file.chmod(0o666)
    state.chmod(0o777)
    done = run("doctor")
    assert done.code == 1
    assert f"fix: chmod go-w {file}" in done.out
    assert f"fix: chmod 700 {state}" in done.out


def test_names_that_switch_nothing_off_are_told(run: Any, config: Any) -> None:
    file = config(
        "users: {bob: {disabled_tools: [write_fil], disabled_toolsets: [todo]}, eve: {disabled_toolsets: [terminl]}}\n"
        "platforms: {telegram: {disabled_tools: [terminal, pach]}}\n"
        "approval: {tools: [{tool: wirte_file, decision: deny, why: x}, {tool: 'read_*', decision: ask, why: x}, "
        "{tool: patch, decision: deny, why: x, args: {file: x, path: y}}, "
        "{toolset: mcp-mial, decision: deny, why: x}, {toolset: 'fil*', decision: ask, why: x}]}\n"
    )
    done = run("doctor")
    assert done.code == 1
    for said in (
        f"✗ {file}:1: users.eve.disabled_toolsets: unknown toolset 'terminl'; did you mean 'terminal'?",
        f"· {file}:1: users.bob.disabled_tools names the unknown tool 'write_fil'; did you mean 'write_file'?",
        f"· {file}:2: platforms.telegram.disabled_tools names the unknown tool 'pach'; did you mean 'patch'?",
        f"· {file}:3: approval.tools[0] names the unknown tool 'wirte_file'; did you mean 'write_file'?",
        f"· {file}:3: approval.tools[2] tests 'file', which is not an argument of patch: it matches no call (arguments: ",
        f"· {file}:3: approval.tools[3] names the toolset 'mcp-mial', which no tool has",
    ):
        assert said in done.out
    assert "read_*" not in done.out
    assert "fil*" not in done.out


def test_a_state_folder_on_a_full_disk(run: Any) -> None:
    """The folder's permissions are right, but nothing can be written to it."""
    state = Path(os.environ["XDG_STATE_HOME"]) / "toolcrib"
    state.mkdir(parents=True, mode=0o700)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, before[1]))
    try:
        done = run("doctor")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.code == 1
    assert f"nothing can be written to the state folder {state}: " in done.out
    assert "fix: free some space" in done.out


def test_a_state_folder_that_cannot_be(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "file" / "state"))
    done = run("doctor")
    assert done.code == 1
    assert "set TOOLCRIB_STATE to another folder" in done.out


def test_entries_that_await_confirmation(run: Any, config: Any) -> None:
    config("command_allowlist: [{argv: [make, clean], cwd: /srv, version: 1}]\n")
    done = run("doctor")
    assert "unconfirmed entries of command_allowlist: 1" in done.out
    assert done.code == 0


@pytest.fixture
def installed(root: Path, tmp_path: Path) -> Path:
    """Install toolcrib as a wheel into a folder, and return the folder."""
    target = tmp_path / "site"
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet", "--no-compile"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(root)],
        check=True, timeout=120, env={**os.environ, "PIP_NO_CACHE_DIR": "1"},
    )  # fmt: skip
    return target


@pytest.mark.full
def test_files_that_another_package_overwrote_are_named(installed: Path, tmp_path: Path) -> None:
    def start(command: str) -> subprocess.CompletedProcess[str]:
        code = f"import sys; from agent.cli import main; sys.exit(main([{command!r}]))"
        env = {**os.environ, "PYTHONPATH": str(installed), "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled")}
        return subprocess.run(
            [sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )

    good = start("doctor")
    assert good.returncode == 0, good.stdout + good.stderr
    assert "its files as released" in good.stdout
    for module in ("model_tools", "toolsets"):  # type checkers read these in an installed package
        assert (installed / f"{module}-stubs" / "__init__.pyi").read_text() == (installed / f"{module}.py").read_text()
    assert all((installed / package / "py.typed").is_file() for package in ("toolcrib", "tools", "agent"))
    (installed / "tools" / "todo_tool.py").unlink()
    bad = start("doctor")
    assert bad.returncode == 1
    assert "tools/todo_tool.py (gone)" in bad.stdout
    assert "✗ module tools.todo_tool: ModuleNotFoundError" in bad.stdout
    (installed / "toolsets.py").write_text("TOOLSETS = {}  # another distribution's\n")
    worse = start("doctor")
    assert worse.returncode == 1
    assert "are not those of toolcrib" in worse.stdout
    assert "toolsets.py" in worse.stdout
    assert "pipx install toolcrib" in worse.stdout
    told = start("tools")
    assert (told.returncode, told.stdout) == (2, "")
    assert "`toolcrib doctor` lists files that differ" in told.stderr
    assert "Traceback" not in told.stderr


def test_how_the_model_calls_tools_is_told_with_the_reason(run: Any, config: Any) -> None:
    """000-14: the server's own report decides; a server that does not answer is a fault, whatever it reported earlier."""
    listed = {"data": [{"id": "m", "owned_by": "llamacpp"}]}
    props = {"chat_template": "<arg_key>", "chat_template_caps": {"supports_tools": False, "supports_tool_calls": False}}
    with ChatServer(answers={"/v1/models": listed, "/props": props}) as server:
        config(f"model: {{name: m, base_url: '{server.base_url}'}}\n")
        done = run("doctor")
    assert done.code == 0
    assert f"✓ model m at 127.0.0.1:{server.port} calls tools in its text, as glm (" in done.out
    assert "(the server reports that the model has no native calls; its chat template names the protocol)" in done.out
    done = run("doctor")
    assert done.code == 1
    assert f"✗ the model server 127.0.0.1:{server.port} does not answer: " in done.out
    assert "start the server, or set another: toolcrib config set model.base_url URL" in done.out
    assert "✓ model m" not in done.out
    config("model: {name: gpt-5, base_url: 'https://api.openai.com/v1'}\n")
    assert "gpt-5" not in run("doctor").out
