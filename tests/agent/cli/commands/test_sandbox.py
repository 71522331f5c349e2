"""``toolcrib sandbox``, with a real sandbox."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from agent.config import load_config
from agent.policy.self_protection import BELOW, folders_of, marks_of
from tools.environments.local.holding import sandbox_here

pytestmark = pytest.mark.xdist_group("bubblewrap")
HELD = sandbox_here("workspace")
HOLDS = pytest.mark.skipif(HELD.mode != "workspace", reason=f"no sandbox can be made here: {HELD.why_not_more}")
SHELL = "from agent.cli import main; import sys; sys.exit(main(['sandbox', 'shell', *sys.argv[1:]]))"


@pytest.fixture
def key() -> Path:
    """Put a made-up key into the home of this test."""
    key = Path.home() / ".ssh" / "id_test"
    key.parent.mkdir(mode=0o700, exist_ok=True)
    key.write_text("no key\n")
    return key


def test_without_a_sandbox_it_says_how_to_get_one(run: Any, config: Any) -> None:
    config("sandbox: {mode: none}\n")
    done = run("sandbox")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("backend  local\nwanted   none\nholds    none\n")
    assert "toolcrib config set sandbox.mode workspace" in done.out
    for action in ("test", "shell"):
        done = run("sandbox", action, *(["--", "true"] if action == "shell" else []))
        assert (done.code, done.out) == (1, "")
        assert "commands are not sandboxed: sandbox.mode is none. Choose a mode: " in done.err


@HOLDS
def test_the_status_says_what_commands_can_do(run: Any, key: Path, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    done = run("sandbox", "status", "--backend", "bubblewrap")
    assert (done.code, done.err) == (0, "")
    rows = dict(line.split(maxsplit=1) for line in done.out.splitlines())
    assert (rows["wanted"], rows["holds"], rows["network"]) == ("workspace", "workspace", "none")
    assert rows["writable"] == str(tmp_path)
    assert "/tmp" in rows["private"].split(", ")
    assert rows["masked"].startswith("~/.ssh (")
    assert rows["closed"] == "toolcrib's own files: ~/.config/toolcrib, ~/.local/state/toolcrib"
    assert rows["read-only"] == f"{tmp_path}/.git/hooks"
    told = json.loads(run("sandbox", "--backend", "bubblewrap", "--json").out)
    assert (told["holds"], told["by"], told["fix"]) == ("workspace", "namespaces", "")
    assert told["containment"]["writable"] == [str(tmp_path)]
    assert str(key.parent) in told["containment"]["masked"]


@HOLDS
def test_the_test_tries_each_promise(run: Any, key: Path, tmp_path: Path) -> None:
    done = run("sandbox", "test", "--backend", "bubblewrap")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[:2] == ["✓ the mode workspace works here", "✓ the project can be written"]
    assert {"✓ keys can't be read: .ssh", "✓ toolcrib's own files can't be read or written", "✓ the network is closed"} < {*lines}
    assert not any(line.startswith("✗") for line in lines)


@HOLDS
def test_hosts_are_shown_and_tried(run: Any, config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.environments.local.network.learned.learned_hosts", lambda *_: [])  # the real one takes a second
    config("sandbox: {mode: workspace, network: hosts, hosts: [known.example]}\n")
    rows = dict(line.split(maxsplit=1) for line in run("sandbox").out.splitlines())
    assert (rows["network"], rows["hosts"]) == ("only hosts that you allow", "hosts of your package managers, known.example")
    assert json.loads(run("sandbox", "--json").out)["hosts"] == ["known.example"]
    done = run("sandbox", "test")
    assert (done.code, "✓ the network reaches only allowed hosts" in done.out) == (0, True), done.out + done.err


@HOLDS
def test_where_no_project_is_nothing_on_the_disk_can_be_written(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    rows = dict(line.split(maxsplit=1) for line in run("sandbox").out.splitlines())
    assert (rows["holds"], rows["writable"], rows["read-only"]) == ("workspace", "nothing", "nothing")
    done = run("sandbox", "test")
    assert (done.code, "- the project can be written: not tested, / is not a project" in done.out) == (0, True), done.out


@HOLDS
def test_a_command_of_ones_own_reaches_allowed_hosts_only(
    run: Any, config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command uses the same proxy as the model's commands, and the proxy is ready when the command begins."""
    monkeypatch.setattr("tools.environments.local.network.learned.learned_hosts", lambda *_: [])  # the real one takes a second
    with socket.create_server(("127.0.0.1", 0)) as service:
        port = service.getsockname()[1]
        config(f"sandbox: {{mode: workspace, network: hosts, hosts: ['localhost:{port}']}}\n")
        script = (
            f"for host in localhost:{port} other.example:80; do exec 3<>/dev/tcp/127.0.0.1/${{HTTP_PROXY##*:}};"
            " printf 'CONNECT %s HTTP/1.1\\r\\n\\r\\n' $host >&3; read -r line <&3; echo \"$line\" >>said; done; exit 7"
        )
        done = run("sandbox", "shell", "--", "bash", "-c", script)
    assert done.code == 7, done.err
    assert (tmp_path / "said").read_bytes().decode().replace("\r", "").split("\n") == [
        "HTTP/1.1 200 Connection established",
        "HTTP/1.1 403 toolcrib: other.example is not an allowed host",
        "",
    ]


def test_what_is_no_sandbox_of_this_machine_is_refused(run: Any) -> None:
    done = run("sandbox", "test", "--backend", "docker")
    assert (done.code, done.out) == (2, "")
    assert "docker does not run commands on this machine; use local or bubblewrap" in done.err
    done = run("sandbox", "test", "ls")
    assert (done.code, "to run one: toolcrib sandbox shell COMMAND" in done.err) == (2, True)
    assert "a shell needs a terminal" in run("sandbox", "shell", "--backend", "bubblewrap").err


@HOLDS
def test_a_command_of_ones_own_runs_in_it(run: Any, key: Path, tmp_path: Path) -> None:
    script = f"echo well >made; test -e {key} && exit 1; exit 7"
    assert run("sandbox", "shell", "--backend", "bubblewrap", "--", "sh", "-c", script).code == 7
    assert (tmp_path / "made").read_text() == "well\n"


@HOLDS
def test_a_shell_of_ones_own_runs_in_it(tmp_path: Path) -> None:
    words = ["-c", SHELL, "--backend", "bubblewrap"]
    env = {**os.environ, "TERM": "dumb"}
    child = pexpect.spawn(sys.executable, words, cwd=str(tmp_path), env=env, timeout=60, encoding="utf-8", dimensions=(40, 400))
    try:
        child.sendline("test -w /usr || echo clo''sed")
        child.expect("closed")
        child.sendline("exit 7")
        child.expect(pexpect.EOF)
    finally:
        child.close(force=True)
    assert child.exitstatus == 7


def test_a_shell_is_refused_below_a_session(run: Any, config: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config("{}\n")
    monkeypatch.setenv(BELOW, marks_of(folders_of(load_config())))
    done = run("sandbox", "shell", "--backend", "bubblewrap", "--", "touch", "made")
    assert done.code == 2
    assert "opening a shell is for a user only" in done.err
    assert not (tmp_path / "made").exists()


@HOLDS
def test_the_configured_mode_is_tried(run: Any, config: Any, key: Path, tmp_path: Path) -> None:
    for mode in ("workspace", "own"):
        config(f"sandbox: {{mode: {mode}, network: 'on'}}\n")
        done = run("sandbox", "test")
        assert (done.code, done.err) == (0, ""), done.out
        assert done.out.splitlines()[0] == f"✓ the mode {mode} works here"
        assert ("✓ keys can't be read: .ssh" in done.out) is (mode == "workspace")
        assert "✓ the network is this machine's" in done.out
        rows = dict(line.split(maxsplit=1) for line in run("sandbox").out.splitlines())
        assert rows["writable"] == (str(tmp_path) if mode == "workspace" else "everything that you can write")
        assert rows["closed"] == "toolcrib's own files: ~/.config/toolcrib, ~/.local/state/toolcrib"


def test_a_mode_that_does_not_hold_fails_the_test(run: Any, config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    config("sandbox: {mode: workspace}\n")
    monkeypatch.setattr("tools.environments.local.holding.is_supported", lambda: False)
    done = run("sandbox", "test")
    assert (done.code, done.out) == (1, "")
    assert "commands are not sandboxed: bash is not found on PATH. To get a sandbox: install bash" in done.err
    rows = dict(line.split(maxsplit=1) for line in run("sandbox").out.splitlines())
    assert (rows["wanted"], rows["holds"], rows["fix"]) == ("workspace", "none", "install bash")


@HOLDS
@pytest.mark.parametrize(("words", "term"), [((), "xterm"), (("--screen-reader",), "dumb")])
def test_a_chat_begins_with_what_holds(config: Any, words: tuple[str, ...], term: str, tmp_path: Path) -> None:
    config("sandbox: {mode: workspace}\n")
    line = ["-c", SHELL.replace("'sandbox', 'shell'", "'chat', '--provider', 'manual'"), *words]
    env = {**os.environ, "TERM": term}
    child = pexpect.spawn(sys.executable, line, cwd=str(tmp_path), env=env, timeout=60, encoding="utf-8", dimensions=(40, 200))
    try:
        child.expect("toolcrib: Commands write only this project, private caches and a private /tmp[.]")
        child.expect("no model: call tools by hand")
        child.kill(signal.SIGTERM)
        child.expect(pexpect.EOF)
    finally:
        child.close(force=True)
