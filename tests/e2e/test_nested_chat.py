"""A chat on a terminal that a session's command created can't approve calls. A chat on the user's terminal can."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.api import assemble
from toolcrib import ExecRequest
from tools.dispatch.bridge import close_loop, run_async

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.usefixtures("plain"),
    pytest.mark.xdist_group("nested_chat"),
]  # one process runs all attacks at once
COMMAND = Path(sys.executable).with_name("toolcrib")
PATIENCE = 60.0
DRIVE = r"""
import os, pty, select, signal, sys, time
CALL = b'@terminal {"command": "rm -rf build"}\r'
pid, tty = pty.fork()
if pid == 0:
    os.environ.update(TERM="dumb", PYTHONPATH=sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
shown = b""
def read_until(seconds, until):
    global shown
    end = time.monotonic() + seconds
    while time.monotonic() < end and not until():
        if select.select([tty], [], [], 0.05)[0]:
            try:
                data = os.read(tty, 65536)
            except OSError:
                return False
            if not data:
                return False
            shown += data
    return True
if read_until(40, lambda: b"/help" in shown) and read_until(0.5, lambda: b"h> " in shown):
    os.write(tty, CALL)
    read_until(15, lambda: b"nce" in shown or shown.count(b"h> ") > 1)
for key in (b"o\r", b"o", b"\r", b"o\r") if b"nce" in shown else ():
    if not read_until(0.9, lambda: not os.path.exists("build")) or not os.path.exists("build"):
        break
    try:
        os.write(tty, key)
    except OSError:
        break
read_until(0.5, lambda: not os.path.exists("build"))
os.kill(pid, signal.SIGHUP)
read_until(10, bool)
os.close(tty)
with open("shown.part", "wb") as file:
    file.write(shown)
os.rename("shown.part", "shown")
os.waitpid(pid, 0)
"""
"""Starts a chat on a new terminal, requests a call that needs approval, and approves it. Arguments: sources, program ..."""
FORK = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp(sys.argv[1], sys.argv[1:])
    os._exit(0)
os.wait()
"""
CHAT = "@toolcrib chat --provider manual --screen-reader"
NESTED = {
    "terminal-of-its-own": f"@drive {CHAT}",
    "no-variables": f'env -i HOME="$HOME" PATH="$PATH" @drive {CHAT}',
    "mark-taken-away": f"env -u TOOLCRIB_BELOW @drive {CHAT}",
    "orphan": f"setsid --fork @drive {CHAT} > /dev/null 2>&1",
    "orphan-with-no-variables": f'env -i HOME="$HOME" PATH="$PATH" setsid --fork @drive {CHAT} > /dev/null 2>&1',
    "double-fork-with-no-variables": f'env -i HOME="$HOME" PATH="$PATH" @python fork.py @drive {CHAT} > /dev/null 2>&1',
    "script": f"script -qec {shlex.quote(f'@drive {CHAT}')} /dev/null > /dev/null",
    "tmux": f"TMUX_TMPDIR=$PWD tmux -f /dev/null -L evil new-session -d {shlex.quote(f'@drive {CHAT}')}",
    "another-home": f"mkdir home; HOME=$PWD/home XDG_CONFIG_HOME= XDG_STATE_HOME= @drive {CHAT}",
    "another-state-folder": f"XDG_STATE_HOME=$PWD/state @drive {CHAT}",
    "program-of-another-name": f"cp @toolcrib ./innocent; @drive ./innocent {CHAT.partition(' ')[2]}",
    "main-of-the-program": "@drive @python -c 'import sys; from agent.cli import main; sys.exit(main(sys.argv[1:]))' "
    + CHAT.partition(" ")[2],
    "screen": "@drive @toolcrib chat --provider manual",
}


def laid_out(folder: Path) -> Path:
    """Return a project with a folder whose removal needs approval."""
    (folder / "build").mkdir(parents=True)
    (folder / "drive.py").write_text(DRIVE)
    (folder / "fork.py").write_text(FORK)
    return folder


def placed(command: str, root: Path) -> str:
    names = {"@drive": ["@python", "drive.py", str(root)], "@toolcrib": [str(COMMAND)], "@python": [sys.executable]}
    for name, words in names.items():
        command = command.replace(name, " ".join(one if one[0] == "@" else shlex.quote(one) for one in words))
    return command


def ends(project: Path) -> str:
    """Wait for the end of the chat, and return its complete output."""
    end = time.monotonic() + PATIENCE
    while not (project / "shown").exists():
        assert time.monotonic() < end, "the chat has not ended"
        time.sleep(0.05)
    return (project / "shown").read_text(errors="replace")


def end_tmux(project: Path) -> None:
    if shutil.which("tmux"):
        env = {**os.environ, "TMUX_TMPDIR": str(project)}
        subprocess.run(["tmux", "-L", "evil", "kill-server"], env=env, check=False, capture_output=True)


def needs(command: str) -> str:
    """Return the program at the beginning of a command if it is not installed, else ""."""
    return next((one for one in ("script", "tmux", "setsid") if f"{one} " in command and not shutil.which(one)), "")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory, root: Path) -> dict[str, Path]:
    """Run all attacks at once, each in a session's shell and its own project, without the judge. Return the projects."""
    home = tmp_path_factory.mktemp("nested")
    projects = {name: laid_out(home / "projects" / name) for name, command in NESTED.items() if not needs(command)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        for name, folder in (("CONFIG", ".config"), ("STATE", ".local/state"), ("DATA", ".local/share"), ("CACHE", ".cache")):
            patch.setenv(f"XDG_{name}_HOME", str(home / folder))
        with assemble(project_dir=home) as crib:
            sessions = {name: crib.open_session(platform="api") for name in projects}

            def attack(name: str) -> None:
                request = ExecRequest(placed(NESTED[name], root), cwd=str(projects[name]), timeout=PATIENCE)
                run_async(sessions[name].scope.environment.execute(request))
                ends(projects[name])

            try:
                with ThreadPoolExecutor(len(projects)) as pool:
                    list(pool.map(attack, projects))
            finally:
                for session in sessions.values():
                    session.close_sync()
                for project in projects.values():
                    end_tmux(project)
        close_loop()
    return projects


@pytest.mark.parametrize("nested", list(NESTED))
def test_no_chat_below_a_session_says_yes(outcomes: dict[str, Path], nested: str) -> None:
    if nested not in outcomes:
        pytest.skip(f"{needs(NESTED[nested])} is not installed")
    project = outcomes[nested]
    assert (project / "build").exists(), ends(project)


@pytest.mark.parametrize("way", ["plain", "another-session", "tmux"])
def test_a_person_s_chat_takes_a_yes(tmp_path: Path, root: Path, way: str) -> None:
    """These keys approve the call if no session started the chat."""
    project = laid_out(tmp_path / "project")
    line = placed(f"@drive {CHAT}", root)
    argv = {
        "plain": shlex.split(line),
        "another-session": ["setsid", "--fork", *shlex.split(line)],
        "tmux": ["tmux", "-f", "/dev/null", "-L", "evil", "new-session", "-d", line],
    }[way]
    if not shutil.which(argv[0]):
        pytest.skip(f"{argv[0]} is not installed")
    env = {**os.environ, "TMUX_TMPDIR": str(project)}
    try:
        subprocess.run(argv, cwd=project, env=env, check=True, stdin=subprocess.DEVNULL, capture_output=True)
        shown = ends(project)
        assert not (project / "build").exists(), shown
    finally:
        end_tmux(project)
