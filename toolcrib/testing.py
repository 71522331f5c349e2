"""Test doubles for tools and plugins: the real dispatcher with a scripted model and an environment in memory.

    from toolcrib.testing import call_tool

    def test_greet():
        assert call_tool(Greet(), {"name": "x"}).result.data == {"greeting": "Hello, x!"}

This is the only module of toolcrib that imports the dispatcher, and only in a call of ``call_tool``.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from toolcrib._testing_desk import PlatformDesk, SeenMessage
from toolcrib._testing_host import FakeHost, FakePlatform, Shown
from toolcrib._testing_platform import PlatformSuite
from toolcrib._testing_server import ChatServer, Response
from toolcrib.contract.containment import Containment
from toolcrib.contract.context import EventSink, RunIdentity, ToolCallContext
from toolcrib.contract.derive import entry_of
from toolcrib.contract.effects import ShellState
from toolcrib.contract.entry import ToolEntry
from toolcrib.contract.environment import BackgroundProcess, Captured, Environment, ExecOutcome, ExecRequest, FileInfo, Health
from toolcrib.contract.hooks import hookimpl
from toolcrib.contract.image import Image
from toolcrib.contract.registry import ToolRegistry
from toolcrib.contract.session import ExecutedCall, OnEvent, ProviderTurn, StreamEvent
from toolcrib.contract.state import StateKey, StateWrite
from toolcrib.contract.types import Answer, Handler, Json, SuspendTicket, Tool, ToolCall

if TYPE_CHECKING:
    from tools.dispatch.scope import CallScope

__all__ = [
    "ChatServer",
    "FakeContained",
    "FakeEnvironment",
    "FakeHost",
    "FakePlatform",
    "PlatformDesk",
    "PlatformSuite",
    "Response",
    "ScriptedSession",
    "SeenMessage",
    "Shown",
    "call_tool",
]


class FakeEnvironment:
    """Files in memory, and commands with results that the test sets.

    ``files`` maps absolute paths to bytes. ``commands`` maps a command to (exit code, stdout), or is a function of the request.
    ``executed`` keeps every request. A test may set ``state`` (the result of ``shell_state``), ``generation`` and ``problem``.
    """

    identity = "fake"

    def __init__(
        self,
        files: Mapping[str, bytes] | None = None,
        commands: Mapping[str, tuple[int, bytes]] | Callable[[ExecRequest], tuple[int, bytes]] | None = None,
        cwd: str = "/project",
    ) -> None:
        self.files = dict(files or {})
        self.cwd = cwd
        self.executed: list[ExecRequest] = []
        self.closed = False
        self.generation = 0
        self.state: ShellState | None = None
        self.problem = ""
        self._commands = commands or {}

    def _run(self, request: ExecRequest) -> tuple[int, bytes]:
        self.executed.append(request)
        if callable(self._commands):
            return self._commands(request)
        return self._commands.get(request.command, (127, b"command not found"))

    async def execute(self, request: ExecRequest) -> ExecOutcome:
        """Record the request and return the result that the test set for its command."""
        code, output = self._run(request)
        return ExecOutcome(code, Captured(output, b"", len(output)), Captured(), self.cwd, 0.0, self.identity)

    async def spawn(self, request: ExecRequest) -> BackgroundProcess:
        """Return a process that prints the output that the test set for its command, and ends."""
        return _FakeProcess(*self._run(request))

    async def shell_state(self) -> ShellState | None:
        """Return the state that the test set."""
        return self.state

    async def health(self) -> Health:
        """Return the problem that the test set."""
        return Health(self.problem)

    async def resolve(self, path: str) -> str:
        """Return the absolute path; there are no links here."""
        return posixpath.normpath(posixpath.join(self.cwd, path))

    async def stat(self, path: str) -> FileInfo | None:
        """Return the file's or folder's facts, or None."""
        if path in self.files:
            return FileInfo(path, "file", len(self.files[path]), 0.0, 0o644)
        inside = path.rstrip("/") + "/"
        return FileInfo(path, "dir", 0, 0.0, 0o755) if any(name.startswith(inside) for name in self.files) else None

    async def read_file(self, path: str, *, limit: int | None = None) -> bytes:
        """Return the file's content. Raises FileNotFoundError."""
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.files[path][:limit]

    async def write_file(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Set the file's content."""
        self.files[path] = data

    async def delete_file(self, path: str) -> None:
        """Delete the file. Raises FileNotFoundError."""
        if self.files.pop(path, None) is None:
            raise FileNotFoundError(2, "No such file or directory", path)

    async def delete_folder(self, path: str) -> None:
        """Raise OSError: folders exist here only as parts of file names, so none is ever empty."""
        number = errno.ENOENT if await self.stat(path) is None else errno.ENOTEMPTY
        raise OSError(number, os.strerror(number), path)

    async def list_dir(self, path: str) -> Sequence[FileInfo]:
        """List the folder's files and folders."""
        inside = path.rstrip("/") + "/"
        names = sorted({inside + name.removeprefix(inside).split("/")[0] for name in self.files if name.startswith(inside)})
        return [info for name in names if (info := await self.stat(name)) is not None]

    def interrupt(self) -> None:
        """Do nothing: no command runs here."""

    async def close(self) -> None:
        """Set ``closed``."""
        self.closed = True


class FakeContained(FakeEnvironment):
    """A FakeEnvironment with a sandbox. ``holds`` are the sandbox's restrictions, None for no sandbox. ``beyond`` is the
    environment outside of the sandbox.
    """

    identity = "fake-sandbox"

    def __init__(
        self,
        holds: Containment | None,
        commands: Mapping[str, tuple[int, bytes]] | Callable[[ExecRequest], tuple[int, bytes]] | None = None,
        cwd: str = "/project",
        beyond: FakeEnvironment | None = None,
    ) -> None:
        super().__init__(commands=commands, cwd=cwd)
        self.holds = holds
        self.beyond = beyond or FakeEnvironment(commands=lambda request: (0, b"outside"), cwd=cwd)

    def containment(self) -> Containment | None:
        """Return ``holds``."""
        return self.holds

    def outside(self) -> Environment:
        """Return ``beyond``."""
        return self.beyond

    async def close(self) -> None:
        """Close both environments."""
        await super().close()
        await self.beyond.close()


class _FakeProcess:
    """A process that has ended already; ``written`` keeps its input."""

    pid = 0

    def __init__(self, code: int, output: bytes) -> None:
        self._code = code
        self._output = output
        self.written = b""

    async def read(self, *, within: float | None = None) -> tuple[str, bytes] | None:
        """Return all output at the first call, then None."""
        output, self._output = self._output, b""
        return ("stdout", output) if output else None

    async def write(self, data: bytes) -> None:
        """Keep the input in ``written``."""
        self.written += data

    def close_stdin(self) -> None:
        """Do nothing: no process reads the input."""

    async def wait(self) -> int:
        """Return the exit code at once."""
        return self._code

    async def kill(self) -> None:
        """Do nothing: the process has ended."""


class ScriptedSession:
    """A model that returns scripted turns: each is a text, or calls as (name, args). ``results`` keeps the calls' results.

    ``said`` keeps the user's messages, ``shown`` their images. A turn that is a ProviderTurn is returned unchanged, an exception
    is raised.
    """

    def __init__(self, *turns: str | Sequence[tuple[str, Json]] | ProviderTurn | Exception) -> None:
        self._turns = list(turns)
        self.results: list[list[ExecutedCall]] = []
        self.said: list[str] = []
        self.shown: list[Image] = []
        self.closed = False

    def say(self, text: str, images: Sequence[Image] = ()) -> None:
        """Keep the text in ``said`` and the images in ``shown``."""
        self.said.append(text)
        self.shown.extend(images)

    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        """Return the next turn. Raises IndexError at the end of the script."""
        turn = self._turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        if isinstance(turn, ProviderTurn):
            return turn
        if isinstance(turn, str):
            on_event(StreamEvent("assistant_delta", turn))
            return ProviderTurn(turn, assistant_turn=turn)
        return ProviderTurn("", tuple(ToolCall(ToolCall.new_id(), name, args) for name, args in turn), turn)

    async def append_tool_results(self, turn: ProviderTurn, executed: Sequence[ExecutedCall]) -> None:
        """Check that each call of the turn has its result, in order, and keep the results."""
        assert [one.call.id for one in executed] == [call.id for call in turn.tool_calls], "one result a call, in order"  # noqa: S101 - a test double's check
        self.results.append(list(executed))

    async def close(self) -> None:
        """Set ``closed``."""
        self.closed = True


class _AllowAll:
    @hookimpl
    def tool_gate(self) -> None:
        """Allow every call."""


def call_tool(
    tool: Tool | ToolEntry | Callable[..., Any],
    args: Json,
    *,
    environment: Environment | None = None,
    plugins: Iterable[Any] = (),
    approval: Any = None,
    asker: Callable[[SuspendTicket, ToolCallContext], Answer | None] | None = None,
    handlers: Mapping[str, Handler] | None = None,
    sink: EventSink | None = None,
    session_id: str = "test",
    state: dict[StateKey[Any], Json] | None = None,
) -> ExecutedCall:
    """Run one call of a tool through the real dispatcher: validation, gates, hooks, handler, redaction, clipping.

    ``tool`` is a Tool, an entry, or a function that ``@tool`` registered.
    ``plugins`` are objects with hookimpls. ``approval`` replaces the approval gate; the default allows everything.
    ``environment`` defaults to an empty FakeEnvironment. Spilled results are deleted when this returns. ``state`` holds the
    values that the call begins with, by StateKey; afterwards it holds the values that the call left.
    """
    from tools.arguments import check_schema
    from tools.dispatch.bridge import run_async
    from tools.dispatch.hooks import APPROVAL, new_manager
    from tools.dispatch.json_results import as_json
    from tools.dispatch.pipeline import Dispatcher
    from tools.dispatch.scope import CallScope

    registry = ToolRegistry()
    hooks = new_manager()
    hooks.register(approval or _AllowAll(), APPROVAL)
    for plugin in plugins:
        hooks.register(plugin)
    dispatcher = Dispatcher(registry, hooks)
    scope = CallScope(
        identity=RunIdentity(session_id),
        open_environment=lambda: environment or FakeEnvironment(),
        asker=asker,
        handlers=handlers or {},
        activity_sink=sink,
    )
    registry.attach(
        lambda name, args, **extra: as_json(dispatcher.call_sync(ToolCall("direct", name, args), scope, extra)), check_schema
    )
    if isinstance(tool, ToolEntry):
        entry = registry.put(tool)
    elif isinstance(tool, Tool):
        entry = registry.add(tool)
    else:
        entry = registry.put(entry_of(tool))
    try:
        with _remembered(scope, {} if state is None else state):
            return dispatcher.call_sync(ToolCall("call", entry.name, args), scope)
    finally:
        run_async(scope.close())


@contextmanager
def _remembered(scope: CallScope, state: dict[StateKey[Any], Json]) -> Iterator[None]:
    """Store these values in the scope, and read them back into ``state`` at the end."""
    from tools.dispatch.bridge import run_async

    identity = scope.identity
    owners = {"session": identity.session_id, "principal": identity.principal.key, "profile": scope.profile}
    given = [StateWrite(key.scope, owners[key.scope], key.name, value) for key, value in state.items()]
    run_async(scope.states.write(given))
    run_async(scope.read_state())
    yield
    for key in state:
        found = run_async(scope.states.of(key.scope, owners[key.scope]))
        state[key] = found[key.name].value
