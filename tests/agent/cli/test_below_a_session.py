"""A chat that a session's command starts can decide nothing, on any terminal."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib import ExecRequest
from tools.environments.local.environment import LocalEnvironment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no mark that a command can't shed")
COMMAND = Path(sys.executable).with_name("toolcrib")
TYPIST = """
import os, pty, select, subprocess, sys, time
master, slave = pty.openpty()
child = subprocess.Popen(sys.argv[1:], stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
os.close(slave)
typed, seen, quiet_at = {typed!r}, b"", None
while child.poll() is None:
    if select.select([master], [], [], 0.1)[0]:
        try:
            seen += os.read(master, 65536)
        except OSError:
            break
        quiet_at = time.monotonic() + 0.3
    elif typed and quiet_at and time.monotonic() > quiet_at:
        os.write(master, typed.pop(0) + b"\\n")
        quiet_at = None
os.write(1, seen)
"""
"""A program that types on its own terminal, each line once the screen is quiet."""
TYPED = [b'@terminal {"command": "git push --force origin main"}', b"o", b"!rm -rf build", b"/mode default", b"/quit"]
NESTINGS = {
    "a terminal of its own": "{typist} {chat}",
    "another home, without variables": "env -i PATH=$PATH HOME=$PWD/other {typist} {chat}",
    "an orphan": "env -i PATH=$PATH HOME=$HOME setsid -f sh -c '{typist} {chat} >seen'; until [ -s seen ]; do sleep 0.1; done; "
    "cat seen",
    "a copy of the program": "cp {program} ./other; env -u TOOLCRIB_BELOW {typist} ./other chat {options}",
    "in tmux": "tmux -S $PWD/t -f /dev/null new -d 'env -u TOOLCRIB_BELOW HOME=$PWD/third {typist} {chat} >seen'; "
    "until [ -s seen ]; do sleep 0.1; done; cat seen",
    "script": "script -qec '{typist} {chat}' /dev/null",
    "in a process namespace": "env -i PATH=$PATH HOME=$HOME unshare -Urpf {typist} {chat}",
    "under another proc": "env -i PATH=$PATH HOME=$HOME unshare -Urm sh -c 'mount -t tmpfs x /proc; exec {typist} {chat}'",
}


def test_a_nested_chat_answers_every_question_no(tmp_path: Path, root: Path) -> None:
    typist = tmp_path / "typist.py"
    typist.write_text(TYPIST.format(typed=TYPED))
    words = {
        "typist": f"env PYTHONPATH={root} TERM=dumb {sys.executable} {typist}",
        "chat": f"{COMMAND} chat --provider manual --screen-reader",
        "program": str(COMMAND),
        "options": "--provider manual --screen-reader",
    }
    asyncio.run(_nest({name: line.format(**words) for name, line in NESTINGS.items()}, tmp_path))


async def _nest(lines: dict[str, str], folder: Path) -> None:
    async def one(name: str, line: str) -> None:
        place = folder / name.replace(" ", "-").replace(",", "")
        (place / "build").mkdir(parents=True)
        environment = LocalEnvironment(str(place))
        outcome = await environment.execute(ExecRequest(f"cd {shlex.quote(str(place))}; {line}", timeout=120))
        await environment.close()
        said = outcome.stdout.head.decode()
        assert "it cannot approve calls" in said, (name, said, outcome.stderr.head)
        assert "cannot approve calls" in said.replace("\r\n", " "), (name, said)
        assert "!COMMAND is for a user only" in said, (name, said)
        assert "/mode is for a user only" in said, (name, said)
        assert (place / "build").is_dir(), (name, said)

    spaces = subprocess.run(["unshare", "-Urpf", "true"], check=False).returncode == 0
    able = {name: line for name, line in lines.items() if "tmux" not in line or shutil.which("tmux")}
    able = {name: line for name, line in able.items() if "unshare" not in line or spaces}
    await asyncio.gather(*(one(name, line) for name, line in able.items()))
