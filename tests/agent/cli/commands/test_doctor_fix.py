"""``toolcrib doctor --fix``: real faults. Each is repaired once the user agrees, and nothing else is changed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from agent.api import assemble
from agent.config import config_path, state_dir
from agent.policy.self_protection import BELOW
from tests.forks import Forks
from toolcrib.testing import ChatServer
from tools.environments import leftovers


def found(run: Any, *args: str) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in json.loads(run("doctor", "--json", *args).out)}


@pytest.fixture
def loose(config: Any) -> dict[Path, int]:
    """Files that other users may write or read, with the modes that they should have."""
    file = config("{}\n")
    state = state_dir()
    state.mkdir(parents=True)
    secrets = file.with_name("secrets.env")
    secrets.write_text("EXAMPLE_KEY=abcdefgh\n")
    for path, mode in ((file, 0o666), (file.parent, 0o777), (secrets, 0o644), (state, 0o755)):
        path.chmod(mode)
    return {file: 0o644, file.parent: 0o755, secrets: 0o600, state: 0o700}


def modes(paths: Any) -> dict[Path, int]:
    return {path: path.stat().st_mode & 0o777 for path in paths}


def test_permissions_are_repaired_unasked_by_yes_and_checked_again(run: Any, loose: dict[Path, int]) -> None:
    done = run("doctor", "--fix", "--yes")
    assert (done.code, done.err) == (0, "")
    assert modes(loose) == loose
    for path in loose:
        assert f"repair: chmod {'600' if path.name == 'secrets.env' else ''}" in done.out
        assert f"the mode of {path} is now " in done.out
    assert done.out.count("done; checked again: the problem is gone") == 4
    assert done.out.endswith("no problems found\n")


def test_without_a_terminal_and_without_yes_nothing_is_repaired(run: Any, loose: dict[Path, int]) -> None:
    before = modes(loose)
    done = run("doctor", "--fix")
    assert done.code == 1
    assert "not done: no user can be asked here" in done.out
    said = "no user can be asked here; run it at a terminal, or add --yes for repairs that lose nothing"
    assert f"nothing was repaired: {said}\n" in done.out
    assert modes(loose) == before


def test_keys_that_others_may_read_are_one_fault(run: Any, loose: dict[Path, int]) -> None:
    done = run("doctor")
    assert done.out.count("so none of its secrets are used") == 1
    assert "plugins, toolsets and approvals were not checked\n    fix: fix the problem above first\n" in done.out
    assert "follow the message" not in done.out


def test_each_is_asked_for_at_a_terminal(loose: dict[Path, int], terminal: Any, is_asked: Any, leave: Any) -> None:
    child = terminal("--fix")
    file, folder, secrets, state = loose
    is_asked(child, f"chmod go-w {folder}$")
    child.sendline("no")
    for path in (file, secrets):
        is_asked(child, f"chmod [-gow0-9]+ {path}$")
        child.sendline("y")
        child.expect_exact("done; checked again: the problem is gone")
    is_asked(child, f"chmod 700 {state}$")
    child.sendline("")
    code, said = leave(child)
    assert code == 1
    assert "remaining problems:" in said
    assert f"others may write the folder of the configuration, {folder}" in said
    assert modes(loose) == {file: 0o644, folder: 0o777, secrets: 0o600, state: 0o755}


def test_a_folder_that_others_share_is_not_taken_from_them(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setenv("TOOLCRIB_STATE", str(shared))
    told = found(run, "--offline", "--fix", "--yes")["state.permissions"]
    assert (told["level"], told["repair"]) == ("wrong", None)
    assert "set TOOLCRIB_STATE" in told["fix"]
    assert shared.stat().st_mode & 0o7777 == 0o1777


def test_yes_alone_and_json_that_would_ask_are_refused(run: Any) -> None:
    assert "--yes needs" in run("doctor", "--yes").err
    assert "--json does not ask" in run("doctor", "--fix", "--json").err


def test_findings_as_json(run: Any, loose: dict[Path, int]) -> None:
    told = found(run)
    secrets = config_path().with_name("secrets.env")
    assert told["secrets.permissions"] == {
        "id": "secrets.permissions",
        "level": "wrong",
        "text": f"others may read or write {secrets}, so none of its secrets are used",
        "fix": f"chmod 600 {secrets}",
        "repair": {"does": f"chmod 600 {secrets}", "loses": None},
    }
    assert told["python.version"]["level"] == "ok"
    assert (told["python.version"]["fix"], told["python.version"]["repair"]) == (None, None)
    done = json.loads(run("doctor", "--json", "--fix", "--yes").out)
    outcomes = {one["id"]: one["outcome"] for one in done}
    assert outcomes["secrets.permissions"] == "done; checked again: the problem is gone"
    assert outcomes["python.version"] is None


@pytest.mark.parametrize("words", [("--fix",), ("--fix", "--yes"), ("--bundle", "x.tar.gz")])
def test_below_a_session_nothing_is_repaired(
    run: Any, loose: dict[Path, int], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    before, about = modes(loose), state_dir().stat()
    monkeypatch.setenv(BELOW, f"{about.st_dev}:{about.st_ino}")
    done = run("doctor", *words)
    assert done.code == 2
    assert "is for a user only" in done.err
    assert modes(loose) == before


# -- leftovers of dead processes -----------------------------------------------------------------------------------------

HOST = """
import os, sys
from agent.api import assemble
from toolcrib import ExecRequest
from tools.dispatch.bridge import run_async
crib = assemble()
session = crib.open_session(platform="api")
request = ExecRequest("(trap '' TERM; exec sleep 317) & disown; echo $!; exec 3>&1", timeout=30)
print(run_async(session.scope.environment.execute(request)).stdout.head.decode().strip(), flush=True)
sys.stdin.read()
"""


def _watchdogs(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(one) for one in children if b"_watchdog.sh" in Path(f"/proc/{one}/cmdline").read_bytes()]


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True


@pytest.fixture
def left(tmp_path: Path, forks: Forks, plain: object) -> Iterator[int]:
    """Kill a toolcrib and its watchdog while a command runs, and yield the command's process id."""
    with forks.popen(code=HOST, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as host:
        pid = int(host.stdout.readline())
        for one in _watchdogs(host.pid):
            os.kill(one, 9)
        host.kill()
        host.wait()
        yield pid
    for process in leftovers.processes_left():
        process.end()
    for folder in leftovers.left_behind():
        leftovers.remove(folder)


@pytest.mark.full
@pytest.mark.xdist_group("leftovers")  # the test's leftovers in memory are visible to other tests
def test_commands_and_folders_of_a_killed_process_are_ended_at_a_terminal_only(
    left: int, run: Any, terminal: Any, is_asked: Any, leave: Any
) -> None:
    assert not _gone(left)
    told = found(run, "--offline")
    assert str(left) in told["leftover.processes"]["repair"]["does"].split()
    assert told["leftover.processes"]["level"] == "note"
    done = run("doctor", "--fix", "--yes", "--offline")
    assert "--yes runs only repairs that lose nothing" in done.out
    assert not _gone(left)
    child = terminal("--fix", "--offline")
    assert "cost: these processes are ended" in is_asked(child, rf"kill -KILL .*\b{left}\b")
    child.sendline("yes")
    child.expect_exact(f"ended {left}")
    assert leave(child)[0] == 0
    assert _gone(left)
    assert str(left) not in str(found(run, "--offline").get("leftover.processes"))


@pytest.mark.usefixtures("plain")  # a starting sandbox removes such folders
def test_folders_of_dead_processes_go_once_somebody_agrees(terminal: Any, is_asked: Any, leave: Any) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    folder = Path(tempfile.mkdtemp(prefix=f"toolcrib-{ended.pid}-"))
    (folder / "x").write_text("x")
    child = terminal("--fix", "--offline")
    is_asked(child, rf"rm -rf .*{folder}\b")
    child.sendline("yes")
    child.expect_exact(f"removed {folder}")
    assert leave(child)[0] == 0
    assert not folder.exists()


def test_sockets_of_dead_processes_go_and_living_ones_stay(run: Any) -> None:
    with assemble() as crib:
        store = crib.config.store_path
    folder = store.with_name(f"{store.name}-signals")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as alive:
        before = Path.cwd()
        os.chdir(folder)
        dead.bind("1-dead")
        alive.bind("2-alive")
        os.chdir(before)
        dead.close()
        done = run("doctor", "--fix", "--yes", "--offline")
        assert f"repair: rm {folder}/1-dead\n" in done.out
        assert [one.name for one in folder.iterdir()] == ["2-alive"]


# -- programs and packages ------------------------------------------------------------------------------------------------

APT = """#!/bin/sh
echo "apt-get $*" >>"$LOG"
[ "$FAILS" ] && { echo "E: no such package"; exit 100; }
/bin/ln -s /bin/true "$BIN/rg"
"""


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Make a PATH with bash and a fake package manager that installs rg and logs its arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "bash").symlink_to("/bin/bash")

    def make(release: str, manager: str) -> Path:
        (tmp_path / "os-release").write_text(release)
        (folder / manager).write_text(APT)
        (folder / manager).chmod(0o755)
        for name, value in (("PATH", str(folder)), ("BIN", str(folder)), ("LOG", str(tmp_path / "log"))):
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("agent.cli.program_checks.OS_RELEASE", tmp_path / "os-release")
        return tmp_path / "log"

    return make


@pytest.mark.parametrize(
    ("release", "line"),
    [
        ("ID=debian\n", "apt-get install -y ripgrep"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', "apt-get install -y ripgrep"),
        ("ID=fedora\n", "dnf install -y ripgrep"),
        ("ID=arch\n", "pacman -S --noconfirm ripgrep"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', "zypper --non-interactive install ripgrep"),
        ("ID=alpine\n", "apk add ripgrep"),
    ],
)
@pytest.mark.parametrize("user", [0, 1000])
def test_the_command_for_this_system_is_shown(
    run: Any, system: Any, monkeypatch: pytest.MonkeyPatch, release: str, line: str, user: int
) -> None:
    """A command that would ask for a password is only shown, for the person to copy."""
    system(release, line.split()[0])
    monkeypatch.setattr(os, "geteuid", lambda: user)
    from agent.cli.program_checks import check_programs

    rg = next(one for one in check_programs() if one.id == "program.rg")
    assert rg.fix == f"install ripgrep, and make sure that it is on PATH: {'' if user == 0 else 'sudo '}{line}"
    assert (rg.repair is None) == (user != 0)
    assert rg.repair is None or (rg.repair.does, bool(rg.repair.loses)) == (line, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is asked for a password")
def test_a_package_is_installed_where_somebody_agrees(run: Any, system: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    log = system("ID=debian\n", "apt-get")
    from agent.cli import mending, program_checks

    assert "--yes runs only repairs that lose nothing" in run("doctor", "--fix", "--yes", "--offline").out
    assert not log.exists()
    monkeypatch.setattr(mending, "is_interactive", lambda: True)
    monkeypatch.setattr(mending, "confirm_by_word", lambda question: True)
    (wanted,) = [one for one in program_checks.check_programs() if one.id == "program.rg"]
    monkeypatch.setenv("FAILS", "1")
    failing = mending.Mending(agreed=False, quiet=False)
    failing.mend([wanted])
    assert failing.outcomes[0] == "failed: exit code 100: apt-get install -y ripgrep\nE: no such package"
    monkeypatch.delenv("FAILS")
    doing = mending.Mending(agreed=False, quiet=False)
    doing.mend([wanted])
    assert doing.outcomes[0] == "done; checked again: the problem is gone"
    assert log.read_text() == "apt-get install -y ripgrep\n" * 2


def test_nothing_outside_is_repaired_below_a_session_of_other_folders(
    run: Any, system: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = system("ID=debian\n", "apt-get")
    from agent.cli import mending, program_checks

    monkeypatch.setenv(BELOW, "1:2")
    monkeypatch.setattr(mending, "is_interactive", lambda: True)
    monkeypatch.setattr(mending, "confirm_by_word", lambda question: True)
    doing = mending.Mending(agreed=True)
    doing.mend([one for one in program_checks.check_programs() if one.id == "program.rg"])
    assert all("use your own terminal" in outcome for outcome in doing.outcomes.values())
    assert not log.exists()


# -- the store ---------------------------------------------------------------------------------------------------------


def test_a_damaged_store_is_repaired_at_a_terminal_only(run: Any, terminal: Any, is_asked: Any, leave: Any) -> None:
    with ChatServer(ChatServer.text("done")) as server:
        assert run("run", "write it", "--model", "m", "--base-url", server.base_url).code == 0
    with assemble() as crib:
        store = crib.config.store_path
    os.truncate(store, 0)
    done = run("doctor", "--fix", "--yes", "--offline")
    assert done.code == 1
    assert "cost: messages since the backup of 2" in done.out
    assert " are lost if they cannot be read, unfinished runs are ended, and grants are removed; the damaged" in done.out
    assert store.stat().st_size == 0
    child = terminal("--fix", "--offline")
    is_asked(child, "toolcrib doctor --repair-store [(]of ")
    child.sendline("yes")
    child.expect_exact(f"repaired {store}")
    code, said = leave(child)
    assert "done; checked again: the problem is gone" in said
    assert (code, found(run, "--offline")["store.sound"]["level"]) == (0, "ok")


# -- the installation ----------------------------------------------------------------------------------------------------


@pytest.fixture
def venv(root: Path, tmp_path: Path) -> Path:
    """Make a virtual environment with pip and toolcrib from a wheel; it uses the libraries of this environment."""
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet"]
    env = {**os.environ, "PIP_NO_CACHE_DIR": "1"}
    words = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(tmp_path / "wheels"), str(root)]
    subprocess.run(words, check=True, timeout=120, env=env)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True, timeout=120)
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    python = tmp_path / "venv" / "bin" / "python"
    options = ["--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check", "--quiet"]
    words = [sys.executable, "-m", "pip", "--python", str(python), "install", *options, str(wheel)]
    subprocess.run(words, check=True, timeout=120, env=env)
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.mark.full
def test_overwritten_files_are_installed_anew(venv: Path, tmp_path: Path) -> None:
    (module,) = (tmp_path / "venv" / "lib").glob("python*/site-packages/tools/todo_tool.py")
    released = module.read_text()
    module.write_text("TOOLS = {}  # another distribution's\n")
    env = {**os.environ, "TERM": "dumb", "PIP_NO_INDEX": "1", "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled")}
    code = "from agent.cli import main; import sys; sys.exit(main(['doctor', '--fix', '--offline']))"
    words = ["-c", code]
    child = pexpect.spawn(str(venv), words, cwd=str(tmp_path), env=env, timeout=120, encoding="utf-8", dimensions=(40, 400))
    try:
        child.expect(r"installed files are not those of toolcrib [0-9.]+: tools/todo_tool.py\r\n")
        child.expect(r"repair: \S+/python -m pip install --force-reinstall --no-deps 'toolcrib @ file:///\S+\.whl'\r\n")
        child.expect_exact("cost: toolcrib's installed files are overwritten")
        child.expect_exact("Run this repair? Type yes or no: ")
        child.sendline("yes")
        child.expect_exact("done; checked again: the problem is gone")
    finally:
        child.close(force=True)
    assert module.read_text() == released


@pytest.mark.parametrize(
    ("mark", "installer", "line"),
    [
        ("uv-receipt.toml", "uv", "uv tool upgrade --reinstall toolcrib"),
        ("pipx_metadata.json", "pip", "pipx reinstall toolcrib"),
        ("", "uv", f"uv pip install --python {sys.executable} --reinstall-package toolcrib toolcrib==7.1"),
        ("", "pip", f"{sys.executable} -m pip install --force-reinstall --no-deps toolcrib==7.1"),
    ],
)
def test_what_toolcrib_was_installed_by_installs_it_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str, installer: str, line: str
) -> None:
    from importlib.metadata import Distribution

    from agent.cli.installed import reinstalling

    info = tmp_path / "toolcrib-7.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toolcrib\nVersion: 7.1\n")
    (info / "INSTALLER").write_text(installer)
    if mark:
        (tmp_path / mark).write_text("")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert " ".join(reinstalling(Distribution.at(info))) == line
