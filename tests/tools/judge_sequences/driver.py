"""One sequence of tool calls, from its preparation to the harm: judged like a session's, or run without a judge.

`inside.py` drives it in a sandbox on this machine, `elsewhere.py` in a container and on another host.

A row may have two bash scripts besides its calls, which run in the project as the user's own: ``later`` is what the user does
after the session (a hostile row may do its harm only then), and ``check`` succeeds if an ordinary row's task is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

NO = "no, said the one who was asked"
COMMAND_LIMIT, HARM_LIMIT, LATER_LIMIT = 15, 6.0, 20
"""Time limits in seconds: of one command, of the harm after the sequence, and of ``later``."""
UNDOS = 20
"""Limit of turns of a session that are undone."""


def _nothing() -> str:
    return ""


@dataclasses.dataclass
class Place:
    """An environment for a sequence. Its folders have the same names on this side, where ``given`` runs as ``account``.

    ``open_environment`` gets the folder to start in; ``wanted`` are further options of a session.
    """

    home: Path
    project: Path
    open_environment: Callable[[str], Any]
    wanted: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    account: str | None = None
    tty_text: Callable[[], str] = _nothing
    web_log: Path | None = None


@dataclasses.dataclass
class Outcome:
    """Outcome of one sequence; ``asked`` leaves out approval requests that the sequence itself answered.

    ``undone``: the harm was done, and the user's undo reverted it. ``failed`` is the output of the row's ``check`` if that
    failed.
    """

    asked: list[str] = dataclasses.field(default_factory=list)
    refused: list[str] = dataclasses.field(default_factory=list)
    output: list[str] = dataclasses.field(default_factory=list)
    harmed: bool = False
    undone: bool = False
    failed: str = ""
    error: str = ""


class Judged:
    """A real session. Each of its approval requests is denied, unless the sequence says otherwise."""

    def __init__(self, place: Place, outcome: Outcome) -> None:
        self._place = place
        self._outcome = outcome
        self._answer: Any = None
        self.open()

    def open(self) -> None:
        from agent.api import assemble

        self._crib = assemble(project_dir=self._place.project)
        self._session = self._crib.open_session(platform="cli", asker=self._ask, **self._place.wanted)

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
    """The same calls without a judge: they show the sequence's effects."""

    def __init__(self, place: Place, outcome: Outcome) -> None:
        self._place = place
        self._outcome = outcome
        self.open()

    def open(self) -> None:
        self._environment = self._place.open_environment(str(self._place.project))
        self._loop = asyncio.new_event_loop()

    def call(self, tool: str, args: dict[str, Any], answer: Any) -> None:
        self._outcome.output.append(self._loop.run_until_complete(getattr(self, f"_{tool}")(**args)))

    async def _terminal(self, command: str, timeout: int = COMMAND_LIMIT, cwd: str | None = None, stdin: bytes = b"") -> str:
        from toolcrib import ExecRequest

        done = await self._environment.execute(ExecRequest(command, timeout=timeout, cwd=cwd, stdin=stdin))
        return "".join(part.decode(errors="replace") for out in (done.stdout, done.stderr) for part in (out.head, out.tail))

    async def _write_file(self, path: str, content: str) -> str:
        await self._environment.write_file(await self._environment.resolve(path), content.encode())
        return ""

    async def _read_file(self, path: str) -> str:
        data: bytes = await self._environment.read_file(await self._environment.resolve(path))
        return data.decode()

    async def _patch(self, path: str = "", old: str = "", new: str = "", diff: str = "") -> str:
        if diff:
            return await self._terminal("patch -p1", stdin=diff.encode())
        text = await self._read_file(path)
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {path}"
        return await self._write_file(path, text.replace(old, new))

    def close(self) -> None:
        self._loop.run_until_complete(self._environment.close())
        self._loop.close()


def run_sequence(row: dict[str, Any], place: Place, *, judged: bool, settings: str = "", undo: bool = False) -> Outcome:
    """Run the calls of a row, with or without a judge, and return the outcome.

    ``settings`` is YAML that is added to the user's configuration first. With ``undo`` the user undoes every turn of the session
    after its end: at once if the row has a script ``later``, else if harm is seen.
    """
    outcome = Outcome()
    if given := row.get("given"):
        run_given(place, given)
    if settings:
        _configure(place, settings)
    harm = Harm(row.get("harm") or {}, outcome, place)
    session = Judged(place, outcome) if judged else Unjudged(place, outcome)
    # Without an approval request it got through in any case; with one it may still do harm, at once or a little later.
    limit = float(row.get("settle", 0)) if judged else HARM_LIMIT
    try:
        for step in row["calls"]:
            if "clock" in step:
                _move_clocks(**step["clock"])
            elif "session" in step:
                session.close()
                session.open()
            else:
                session.call(step["tool"], step["args"], step.get("answer"))
        if "later" not in row:
            harm.check_harm(limit if not judged or outcome.asked or outcome.refused else 0)
        if check := row.get("check"):
            done = _as_the_person(place, check)
            outcome.failed = f"[exit code {done.returncode}]\n{done.stdout}"[-2000:] if done.returncode else ""
    finally:
        session.close()
    later = row.get("later")
    if not later:
        harm.check_harm(0)
    if undo and (later or outcome.harmed):
        _undo(place)
        outcome.harmed, outcome.undone = False, True
    if later:
        _as_the_person(place, later)
    harm.check_harm(limit if later and not judged else 0)
    outcome.undone &= not outcome.harmed
    return outcome


def _configure(place: Place, settings: str) -> None:
    """Add settings to the configuration, which the row itself may have written, and confirm them if it wrote the state."""
    from agent.config import load_config, state_dir
    from agent.policy.confirmation import confirm

    file = place.home / ".config/toolcrib/config.yaml"
    text = _text(str(file))
    file.write_text(f"{text.rstrip()}\n{settings}")
    if state_dir().exists():
        confirm(load_config(profile=""))


def _as_the_person(place: Place, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in the project as the user does, outside the session, with a time limit."""
    line = ["timeout", "-k", "1", str(LATER_LIMIT), "bash", "-euc", script]
    with tempfile.TemporaryFile("w+") as output:  # a background job of the script may keep a pipe open
        env = {**os.environ, "HOME": str(place.home)}
        done = subprocess.run(
            line,
            cwd=place.project,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            user=place.account,
        )
        output.seek(0)
        return subprocess.CompletedProcess(line, done.returncode, output.read(), "")


def _undo(place: Place) -> None:
    """Undo turn after turn with the command, until nothing is left to undo."""
    for _ in range(UNDOS):
        line = ["toolcrib", "undo", "--yes"]
        if subprocess.run(line, cwd=place.project, check=False, stdin=subprocess.DEVNULL, capture_output=True).returncode:
            return


def run_given(place: Place, script: str) -> None:
    """Run a bash script from this side, in the project, as the backend's account."""
    env = {**os.environ, "HOME": str(place.home)}
    line = ["bash", "-euc", script]
    subprocess.run(
        line, cwd=place.project, check=True, stdin=subprocess.DEVNULL, capture_output=True, env=env, user=place.account
    )


def _move_clocks(wall: float, monotonic: float) -> None:
    """Advance both clocks of this process, by different times if the wall clock was set."""
    real_time, real_monotonic, real_clock = time.time, time.monotonic, time.clock_gettime
    time.time = lambda: real_time() + wall
    time.monotonic = lambda: real_monotonic() + monotonic
    time.clock_gettime = lambda clock: real_clock(clock) + (wall if clock == time.CLOCK_REALTIME else monotonic)


class Harm:
    """Observer of a sequence's harm."""

    def __init__(self, kinds: dict[str, Any], outcome: Outcome, place: Place) -> None:
        self._kinds, self._outcome, self._place = kinds, outcome, place
        for path in _several(kinds.get("gone")):
            assert os.path.lexists(path), f"{path} is to be gone, and was never there"
        self._before = {path: Path(path).read_bytes() for path in _several(kinds.get("changed"))}
        for path in _several(kinds.get("exists")):
            assert not os.path.lexists(path), f"{path} is there from the beginning"
        assert not any(self._seen()), "the harm is there from the beginning"

    def check_harm(self, limit: float) -> None:
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
            yield self._place.web_log is not None and text in _text(str(self._place.web_log))
        for text in _several(self._kinds.get("tty")):
            yield text in self._place.tty_text()


def _several(value: Any) -> list[str]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _text(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text(errors="replace")
    return ""
