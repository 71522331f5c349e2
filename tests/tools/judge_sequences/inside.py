"""Run sequences of tool calls, one after another, as the first process of a sandbox. `sandbox.py` starts it there.

It reads a line of JSON for each sequence and writes one with the outcome. Every sequence runs in a fork of this process, in its
own home; then its processes are killed, and the home and toolcrib's own code are restored.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib
import json
import os
import pty
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from driver import Place, run_sequence  # type: ignore[import-not-found]  # beside this file
from world import HOME, PROJECT, WEB_LOG, OwnCode, make_template, renew, serve_web  # type: ignore[import-not-found]  # as above

SEQUENCE_LIMIT = 300.0
"""Time limit of one sequence in seconds."""


# -- the loop of the sandbox's first process --------------------------------------------------------------------------------


def in_fork(row: dict[str, Any], **how: Any) -> dict[str, Any]:
    """Run one sequence in a fork with its own terminal, with the options ``how`` of `run_sequence`, and return its outcome."""
    if any(host in json.dumps(row) for host in ("files.test", "evil.test")):
        serve_web()  # before there is a pipe that it could hold open
    tty, slave = pty.openpty()
    reader, writer = os.pipe()
    seen_reader, seen_writer = os.pipe()
    child = os.fork()
    if child == 0:
        for fd in (tty, reader, seen_writer):
            os.close(fd)
        os.login_tty(slave) if hasattr(os, "login_tty") else _take_terminal(slave)
        _report(writer, row, how, tty_text=_terminal_reader(seen_reader))
    for fd in (slave, writer, seen_reader):
        os.close(fd)
    text = _collect(tty, reader, seen_writer)
    for fd in (tty, reader, seen_writer):
        os.close(fd)
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # everything else in the sandbox: this is its first process
    with contextlib.suppress(ChildProcessError):
        while os.wait():
            pass
    return json.loads(text) if text else {"error": "it did not end in time, or died"}


def _open_environment(folder: str) -> Any:
    from tools.environments.local import LocalEnvironment

    return LocalEnvironment(folder)


def _take_terminal(slave: int) -> None:
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in (0, 1, 2):
        os.dup2(slave, fd)
    os.close(slave)


def _terminal_reader(fd: int) -> Callable[[], str]:
    """Return a function that returns all of the terminal's output: the parent holds its other side, and passes it on."""
    os.set_blocking(fd, False)
    seen = bytearray()

    def read() -> str:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(fd, 65536):
                seen.extend(data)
        return seen.decode(errors="replace")

    return read


def _report(writer: int, row: dict[str, Any], how: dict[str, Any], *, tty_text: Callable[[], str]) -> None:
    place = Place(HOME, PROJECT, _open_environment, tty_text=tty_text, web_log=WEB_LOG)
    try:
        outcome = dataclasses.asdict(run_sequence(row, place, **how))
    except BaseException as error:  # noqa: BLE001 - any error is reported
        outcome = {"error": f"{type(error).__name__}: {error} {getattr(error, 'stderr', b'') or ''}"}
    outcome["modules"] = sorted(sys.modules) if row.get("warm") else []
    with os.fdopen(writer, "w") as pipe:
        json.dump(outcome, pipe)
    os._exit(0)


def _collect(tty: int, reader: int, seen: int) -> str:
    said, end = bytearray(), time.monotonic() + SEQUENCE_LIMIT
    while (left := end - time.monotonic()) > 0:
        ready, _, _ = select.select([tty, reader], [], [], left)
        if tty in ready:
            with contextlib.suppress(OSError):
                os.write(seen, os.read(tty, 65536))
        if reader in ready:
            data = os.read(reader, 65536)
            if not data:
                return said.decode()
            said.extend(data)
        if tty in ready and reader not in ready:
            time.sleep(0.001)  # if no process has it open any more, it is always ready
    return ""


def preload() -> None:
    """Import here what the first sequence imports, so that each fork has it."""
    row = {"warm": True, "calls": [{"tool": "terminal", "args": {"command": "rm -rf x; bash x.sh"}}]}
    row["calls"] += [{"tool": "write_file", "args": {"path": "x.py", "content": "import os\n"}}]
    row["calls"] += [{"tool": "terminal", "args": {"command": "python3 x.py && perl -e 1 && sed -i s/a/b/ x.py"}}]
    for judged in (True, False):
        renew(fill=True)
        outcome = in_fork(row, judged=judged)
        for name in outcome.get("modules", ()):
            if not name.startswith("__"):
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)
    _make_ready()


def _make_ready() -> None:
    """Make here what a process makes at first use: patterns, classes, types of the configuration's keys."""
    from agent.config import load_config
    from agent.policy.confirmation import unconfirmed
    from toolcrib.contract.regex import Regex
    from tools.judge.detect import examine
    from tools.judge.meaning.state import NoFiles
    from tools.judge.setting import Setting

    examine("touch a; rm -rf x", str(PROJECT), None, NoFiles(), Setting())
    for one in gc.get_objects():
        if isinstance(one, Regex):
            one.search  # noqa: B018 - the first access compiles it
        elif isinstance(one, type) and dataclasses.is_dataclass(one):
            dataclasses.fields(one)
    unconfirmed(load_config(), keep=False)
    gc.collect()
    gc.freeze()  # shared memory stays shared


def main() -> None:
    requests, answers = os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    renew(fill=False)
    make_template()
    preload()
    own = OwnCode(Path(sys.prefix))
    print("ready", file=answers, flush=True)
    for line in requests:
        request = json.loads(line)
        renew(fill=True)
        os.chdir(PROJECT)
        outcome = in_fork(request["row"], **request["how"])
        own.restore()
        print(json.dumps(outcome), file=answers, flush=True)


if __name__ == "__main__":
    main()
