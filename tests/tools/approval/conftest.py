"""A test bench: the real dispatcher, gate, store and tools; only the environment of commands is a double."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import tools.file_tools
import tools.process_registry
import tools.terminal_tool  # noqa: F401 - all register tools
from agent.store.sqlite import SqliteStore
from toolcrib import Answer, ExecutedCall, RunIdentity, RunsCommand, ToolCall, ToolRegistry, UsesProcess, WritesInput
from toolcrib.testing import FakeEnvironment
from tools.approval.gate import APPROVAL, ApprovalGate
from tools.dispatch.hooks import new_manager
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope
from tools.environments import open_environment
from tools.judge.setting import Setting
from tools.registry import registry as known
from tools.terminals.typed import TypedLine, keys_of, lines_of, typing

HOME = "/home/dev"
PROJECT = f"{HOME}/project"
OWN = (f"{HOME}/.config/toolcrib", f"{HOME}/.local/state/toolcrib")


FILES = {
    f"{PROJECT}/x.sh": b"echo hello\n",
    f"{PROJECT}/long.sh": b"#!/bin/bash\nsleep 60\necho done\n",
    f"{PROJECT}/waits.sh": b"#!/bin/sh\nnpm test\nsh x.sh\n",
    f"{PROJECT}/shell.sh": b"#!/bin/sh\necho ready\nexec bash\n",
    f"{PROJECT}/app.py": b"import time\ntime.sleep(60)\n",
    f"{PROJECT}/draws.py": b"import curses\n\ndef main(screen):\n    screen.getch()\n\ncurses.wrapper(main)\n",
    f"{PROJECT}/stops.py": b"x = 1\nbreakpoint()\nprint(x)\n",
    f"{PROJECT}/starts.py": b"import subprocess\nsubprocess.run(['sh'])\n",
    f"{PROJECT}/evil": b"rm -rf ~\n",
    f"{PROJECT}/package.json": b'{"scripts": {"dev": "vite", "test": "jest"}}\n',
}


class Floor:
    """A session. ``do`` and ``call`` return the outcome of a call: ``ran``, ``refused``, or the keys of the approval
    request.
    """

    def __init__(self, file: Path, environment: Any = None, **options: Any) -> None:
        self.environment = environment or FakeEnvironment(commands=lambda request: (0, b"done"), cwd=PROJECT)
        self.store = SqliteStore(file)
        registry, hooks = ToolRegistry(), new_manager()
        for name in ("terminal", "write_file", "patch", "read_file"):
            entry = known.get(name)
            assert entry is not None
            registry.put(entry)
        options.setdefault("setting", Setting(protected=OWN, home=HOME))
        options.setdefault("project_root", PROJECT)
        self.gate = ApprovalGate(options.pop("grants", None) or self.store.grants, audit=self.store.audit, **options)
        hooks.register(self.gate, APPROVAL)
        self.dispatcher = Dispatcher(registry, hooks)
        self.numbers = count(1)
        self.last: ExecutedCall | None = None
        self.scopes: list[CallScope] = []

    async def close(self) -> None:
        self.store.close()
        for scope in self.scopes:
            await scope.close()
        await self.environment.close()

    def scope(self, session: str = "s1", asker: Any = None, *, suspends: bool = True) -> CallScope:
        made = CallScope(
            identity=RunIdentity(session),
            open_environment=lambda: self.environment,
            suspends=suspends and asker is None,
            asker=asker,
            ledger=self.store.ledger,
            tickets=self.store.tickets,
        )
        self.scopes.append(made)
        return made

    def run(self, tool: str, args: dict[str, Any], scope: CallScope | None = None) -> ExecutedCall:
        call = ToolCall(f"c{next(self.numbers)}", tool, args)
        self.last = asyncio.run(self.dispatcher.call(call, scope or self.scope()))
        return self.last

    def call(self, tool: str, args: dict[str, Any], session: str = "s1") -> str | set[str]:
        result = self.run(tool, args, self.scope(session)).result
        if result.suspension is not None:
            return {finding["key"] for finding in result.suspension.parameters["findings"]}
        if result.failure is not None:
            assert result.failure.kind == "Denied", result
            return "refused"
        return "ran"

    def do(self, command: str, session: str = "s1") -> str | set[str]:
        return self.call("terminal", {"command": command}, session)

    def asks(self, command: str) -> bool:
        return isinstance(self.do(command), set)

    def answer(self, payload: dict[str, Any] | None = None, session: str = "s1") -> ExecutedCall:
        """Answer the question of the last call."""
        assert self.last is not None
        assert self.last.result.suspension is not None, self.last.result
        answer = Answer(self.last.result.suspension.id, payload=payload or {"approved": True}, by="ann", at=time.time())
        return asyncio.run(self.dispatcher.resume(answer, self.scope(session)))

    def grant(self, command: str, scope: str = "session", **more: Any) -> None:
        assert self.asks(command), command
        assert self.answer({"approved": True, "scope": scope, **more}).result.is_success

    @property
    def ran(self) -> list[str]:
        return [request.command for request in self.environment.executed]


class Bench(Floor):
    """A session with processes: ``start`` and ``feed`` declare the effects that ``terminal`` and ``process`` have."""

    def __init__(self, file: Path, environment: Any = None) -> None:
        super().__init__(file, environment or FakeEnvironment(dict(FILES), commands=lambda request: (0, b""), cwd=PROJECT))
        self.command, self.name = "", "job"
        self.before: str | None = ""
        self.text = ""
        self.typed, self.typing = TypedLine(), typing(TypedLine(), ())
        put = self.dispatcher.registry.register
        shown = {"description": "x", "parameters": {"type": "object"}}
        put("start", "x", shown, lambda args: "{}", kind="execute", effects=self._starts)
        put("feed", "x", shown, lambda args: "{}", kind="execute", effects=self._feeds)
        put("press", "x", shown, lambda args: "{}", kind="execute", effects=self._presses)
        put("look", "x", shown, lambda args: "{}", kind="execute", effects=lambda args, ctx: [UsesProcess("job", args["does"])])

    def _starts(self, args: Any, ctx: Any) -> list[Any]:
        pty = args.get("pty", False)
        return [RunsCommand(args["command"], PROJECT, background=True, open_input=args["open"], terminal=pty)]

    def _feeds(self, args: Any, ctx: Any) -> list[Any]:
        return [WritesInput(self.name, args["text"], self.command, PROJECT, before=self.before)]

    def _presses(self, args: Any, ctx: Any) -> list[Any]:
        typed = self.typing
        if typed.only_ends:
            return [UsesProcess(self.name, "interrupts it")]
        before = self.typed.written
        return [WritesInput(self.name, typed.text, self.command, PROJECT, None, before, typed.keys, typed.certain)]

    def open(self, command: str) -> str | set[str]:
        """Start a program in a terminal."""
        self.command, self.typed = command, TypedLine()
        return self.call("start", {"command": command, "open": True, "pty": True})

    def press(self, keys: tuple[str, ...]) -> str | set[str]:
        """Press keys in the terminal."""
        self.typing = typing(self.typed, keys)
        found = self.call("press", {"keys": list(keys)})
        if found == "ran":
            self.typed = self.typing.after
        return found

    def start(self, command: str, *, opened: bool = False) -> str | set[str]:
        self.command, self.before = command, ""
        return self.call("start", {"command": command, "open": opened})

    def feed(self, text: str) -> str | set[str]:
        self.text = text
        found = self.call("feed", {"text": text})
        if found == "ran":
            self._wrote()
        return found

    def allow(self) -> bool:
        """Answer the request of the last step with yes."""
        assert self.last is not None
        ran = self.answer().result.is_success
        if self.last.call.name == "feed":
            self._wrote()
        if self.last.call.name == "press":
            self.typed = self.typing.after
        return ran

    def _wrote(self) -> None:
        self.before = None if self.before is None else self.before + self.text

    def last_of(self, steps: Sequence[str]) -> str | set[str]:
        """Do the steps, and return the outcome of the last one. The user allows the earlier ones; none of them is refused."""
        for step in steps[:-1]:
            found = self.step(step)
            assert found != "refused", step
            if isinstance(found, set):
                assert self.allow(), step
        return self.step(steps[-1])

    def step(self, step: str) -> str | set[str]:
        """Do one step of a row: ``OPEN command``, ``BACK command``, ``DO command``, ``PUT path``, or a line of input.

        In a terminal: ``TERM command``, ``KEYS names``, ``TYPE text`` without Enter, ``LINE text`` with Enter.
        """
        kind, _, rest = step.partition(" ")
        match kind:
            case "OPEN" | "BACK":
                return self.start(rest, opened=kind == "OPEN")
            case "TERM":
                return self.open(rest)
            case "KEYS":
                return self.press(keys_of(rest.split()))
            case "TYPE":
                return self.press(keys_of([f"text:{rest}"]))
            case "LINE":
                return self.press(lines_of(rest))
            case "DO":
                return self.do(rest)
            case "PUT":
                return self.call("write_file", {"path": f"{PROJECT}/{rest}", "content": "rm -rf ~\n"})
        return self.feed(f"{step}\n")


@pytest.fixture
def floors(tmp_path: Path) -> Iterator[Callable[..., Floor]]:
    made: list[Floor] = []

    def one(environment: Any = None, **options: Any) -> Floor:
        made.append(Floor(tmp_path / "store.db", environment, **options))
        return made[-1]

    yield one
    for floor in made:
        asyncio.run(floor.close())


@pytest.fixture
def floor(floors: Callable[..., Floor]) -> Floor:
    return floors()


@pytest.fixture
def real(floors: Callable[..., Floor], tmp_path: Path) -> Floor:
    """A session with the real tools on this machine. Sessions of one name share a folder there, so a test names its own."""
    floor = floors(open_environment("local", cwd=str(tmp_path)), project_root=str(tmp_path))
    entry = known.get("process")
    assert entry is not None
    floor.dispatcher.registry.put(entry)
    return floor


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "store.db")
    yield made
    asyncio.run(made.close())
