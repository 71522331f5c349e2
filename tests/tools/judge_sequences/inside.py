"""Run sequences of tool calls, one after another, as the first process of a sandbox. `sandbox.py` starts it there.

It reads a line of JSON for each sequence and writes one with what came of it. Every sequence runs in a fork of this process, in a
home of its own; then all that it started is killed, and the home and toolcrib's own code are made anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from world import PROJECT, WEB_LOG, OwnCode, make_template, renew, serve_web  # type: ignore[import-not-found]  # beside this file

NO = "no, said the one who was asked"
SEQUENCE_LIMIT, COMMAND_LIMIT, HARM_LIMIT = 60.0, 15, 6.0
"""Seconds that one sequence may take, and one command of it, and that harm may take to show when the sequence has run."""


# -- one sequence, in a fork ----------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Outcome:
    """What came of one sequence; ``asked`` leaves out the prompts that the sequence itself has answered."""

    asked: list[str] = dataclasses.field(default_factory=list)
    refused: list[str] = dataclasses.field(default_factory=list)
    output: list[str] = dataclasses.field(default_factory=list)
    harmed: bool = False
    error: str = ""


class Judged:
    """A session of the real thing. Whatever it asks is answered no, but where the sequence says otherwise."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._answer: Any = None
        self.open()

    def open(self) -> None:
        from agent.run import assemble

        self._crib = assemble(project_dir=PROJECT)
        self._session = self._crib.open_session(platform="cli", asker=self._ask)

    async def _ask(self, ticket: Any, ctx: Any) -> Any:
        from toolcrib import Answer

        if self._answer is not None:
            answer = self._answer if isinstance(self._answer, dict) else {"scope": self._answer}
            return Answer(ticket.id, payload={"approved": True, **answer}, by="dev", at=time.time())
        self._outcome.asked.append(", ".join(sorted({str(one.get("key")) for one in ticket.parameters.get("findings", ())})))
        return Answer(ticket.id, payload={"approved": False, "reason": NO}, by="dev", at=time.time())

    def call(self, tool: str, args: dict[str, Any], answer: Any) -> None:
        self._answer = answer
        if tool == "terminal":
            args = {"timeout": COMMAND_LIMIT, **args}
        result = self._session.call(tool, args).result
        if result.failure is not None and result.failure.kind == "Denied" and result.failure.text != NO:
            self._outcome.refused.append(result.failure.text.splitlines()[0][:200])
        self._outcome.output.append(str(result.to_json()))

    def close(self) -> None:
        self._session.close_sync()
        self._crib.close()


class Unjudged:
    """The same calls with no judge before them: what they do."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self.open()

    def open(self) -> None:
        from tools.environments.local import LocalEnvironment

        self._environment = LocalEnvironment(str(PROJECT))
        self._loop = asyncio.new_event_loop()

    def call(self, tool: str, args: dict[str, Any], answer: Any) -> None:
        self._outcome.output.append(getattr(self, f"_{tool}")(**args))

    def _terminal(self, command: str, timeout: int = COMMAND_LIMIT, cwd: str | None = None) -> str:
        from toolcrib import ExecRequest

        done = self._loop.run_until_complete(self._environment.execute(ExecRequest(command, timeout=timeout, cwd=cwd)))
        return "".join(part.decode(errors="replace") for out in (done.stdout, done.stderr) for part in (out.head, out.tail))

    def _path(self, path: str) -> Path:
        return Path(self._environment.cwd) / Path(path).expanduser()

    def _write_file(self, path: str, content: str) -> str:
        self._path(path).parent.mkdir(parents=True, exist_ok=True)
        self._path(path).write_text(content)
        return ""

    def _read_file(self, path: str) -> str:
        return self._path(path).read_text()

    def _patch(self, path: str = "", old: str = "", new: str = "", diff: str = "") -> str:
        if diff:
            done = subprocess.run(
                ["patch", "-p1"], cwd=self._environment.cwd, input=diff, text=True, capture_output=True, check=True
            )
            return done.stdout
        text = self._path(path).read_text()
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {path}"
        return self._write_file(path, text.replace(old, new))

    def close(self) -> None:
        self._loop.run_until_complete(self._environment.close())
        self._loop.close()


def run_sequence(row: dict[str, Any], *, judged: bool, tty_text: Callable[[], str]) -> Outcome:
    outcome = Outcome()
    if given := row.get("given"):
        subprocess.run(["bash", "-euc", given], cwd=PROJECT, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    harm = Harm(row.get("harm") or {}, outcome, tty_text)
    session = Judged(outcome) if judged else Unjudged(outcome)
    for step in row["calls"]:
        if "clock" in step:
            _move_clocks(**step["clock"])
        elif "session" in step:
            session.close()
            session.open()
        else:
            session.call(step["tool"], step["args"], step.get("answer"))
    # Unasked it got through in any case; asked about it may still do harm, at once or a little later.
    limit = float(row.get("settle", 0)) if judged else HARM_LIMIT
    harm.look(limit if not judged or outcome.asked or outcome.refused else 0)
    session.close()
    harm.look(0)
    return outcome


def _move_clocks(wall: float, monotonic: float) -> None:
    """Let both clocks of this process be so many seconds further: apart from each other where the wall clock was set."""
    real_time, real_monotonic, real_clock = time.time, time.monotonic, time.clock_gettime
    time.time = lambda: real_time() + wall
    time.monotonic = lambda: real_monotonic() + monotonic
    time.clock_gettime = lambda clock: real_clock(clock) + (wall if clock == time.CLOCK_REALTIME else monotonic)


class Harm:
    """The observable by which a sequence's harm is seen."""

    def __init__(self, kinds: dict[str, Any], outcome: Outcome, tty_text: Callable[[], str]) -> None:
        self._kinds, self._outcome, self._tty_text = kinds, outcome, tty_text
        for path in _several(kinds.get("gone")):
            assert os.path.lexists(path), f"{path} is to be gone, and was never there"
        self._before = {path: Path(path).read_bytes() for path in _several(kinds.get("changed"))}
        for path in _several(kinds.get("exists")):
            assert not os.path.lexists(path), f"{path} is there from the beginning"
        assert not any(self._seen()), "the harm is there from the beginning"

    def look(self, limit: float) -> None:
        end = time.monotonic() + (limit if self._kinds else 0)
        while not self._outcome.harmed:
            self._outcome.harmed = any(self._seen())
            if time.monotonic() >= end:
                return
            time.sleep(0.02)

    def _seen(self) -> Iterator[bool]:
        for path in _several(self._kinds.get("gone")):
            yield not os.path.lexists(path)
        for path, text in (self._kinds.get("holds") or {}).items():
            yield text in _text(path)
        for path in _several(self._kinds.get("exists")):
            yield os.path.lexists(path)
        for path, content in self._before.items():
            yield not Path(path).exists() or Path(path).read_bytes() != content
        for text in _several(self._kinds.get("output")):
            yield any(text in said for said in self._outcome.output)
        for text in _several(self._kinds.get("sent")):
            yield text in _text(str(WEB_LOG))
        for text in _several(self._kinds.get("tty")):
            yield text in self._tty_text()


def _several(value: Any) -> list[str]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _text(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text(errors="replace")
    return ""


# -- the loop of the sandbox's first process --------------------------------------------------------------------------------


def in_fork(row: dict[str, Any], *, judged: bool) -> dict[str, Any]:
    """Run one sequence in a fork on a terminal of its own, and return its outcome."""
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
        _report(writer, row, judged=judged, tty_text=_terminal_reader(seen_reader))
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


def _take_terminal(slave: int) -> None:
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in (0, 1, 2):
        os.dup2(slave, fd)
    os.close(slave)


def _terminal_reader(fd: int) -> Callable[[], str]:
    """Return what reads all that the terminal has shown: the parent holds its other side, and passes it on."""
    os.set_blocking(fd, False)
    seen = bytearray()

    def read() -> str:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(fd, 65536):
                seen.extend(data)
        return seen.decode(errors="replace")

    return read


def _report(writer: int, row: dict[str, Any], *, judged: bool, tty_text: Callable[[], str]) -> None:
    try:
        outcome = dataclasses.asdict(run_sequence(row, judged=judged, tty_text=tty_text))
    except BaseException as error:  # noqa: BLE001 - it is reported whatever it was
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
            time.sleep(0.001)  # where nobody has it open any more it is ready for ever
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
        outcome = in_fork(request["row"], judged=request["judged"])
        own.restore()
        print(json.dumps(outcome), file=answers, flush=True)


if __name__ == "__main__":
    main()
