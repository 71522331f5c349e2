"""The transport over the standard streams of a program that runs in an environment."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from toolcrib.contract.environment import BackgroundProcess, Environment, ExecRequest
from toolcrib.contract.errors import EnvironmentFailed
from toolcrib.contract.paths import with_home

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

_MOST_BYTES = 64 << 20
"""Bytes of one message, and of messages between two answers."""
_KEPT = 4_000
"""Bytes of the program's last error output that are kept for error messages."""
_GRACE = 2.0
"""Seconds that the program may take to end after its input was closed."""


class StdioServer:
    """A server's program. ``said`` is the end of its error output; ``why`` is why the connection ended, "" if it did not fail."""

    def __init__(self, process: BackgroundProcess) -> None:
        self._process = process
        self._said = bytearray()
        self.why = ""
        self.ended = anyio.Event()

    @property
    def said(self) -> str:
        return self._said.decode(errors="replace").strip()

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """Yield the streams of messages, as the SDK expects them of a transport."""
        to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        from_session, to_server = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, to_session)
            tasks.start_soon(self._write, to_server)
            try:
                yield from_server, from_session
            finally:
                tasks.cancel_scope.cancel()

    async def _read(self, to_session: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        line = bytearray()
        unanswered = 0
        try:
            async with to_session:
                while (chunk := await self._process.read()) is not None:
                    name, data = chunk
                    if name != "stdout":
                        self._said = (self._said + data)[-_KEPT:]
                        continue
                    *whole, rest = data.split(b"\n")
                    for part in whole:
                        message = _parsed(bytes(line + part))
                        unanswered = 0 if _answers(message) else unanswered + len(line) + len(part)
                        line.clear()
                        if message is not None:
                            await to_session.send(message)
                    line += rest
                    if max(len(line), unanswered) > _MOST_BYTES:
                        self.why = f"it sent more than {_MOST_BYTES >> 20} MiB without an answer"
                        return
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the session has closed its end
        except (OSError, EnvironmentFailed) as error:
            self.why = str(error)
        finally:
            self.ended.set()

    async def _write(self, to_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        with contextlib.suppress(OSError, EnvironmentFailed):  # its end is noticed by _read
            async with to_server:
                async for one in to_server:
                    text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await self._process.write(text.encode() + b"\n")

    async def close(self) -> None:
        """End the program: its input is closed first, so that it can end by itself."""
        with contextlib.suppress(OSError, EnvironmentFailed):
            self._process.close_stdin()
            with anyio.move_on_after(_GRACE):
                while await self._process.read() is not None:
                    pass
                await self._process.wait()
            await self._process.kill()


def _parsed(line: bytes) -> SessionMessage | Exception | None:
    """Return the message of a line. A line that is none is passed on as an exception, which the session ignores."""
    if not line.strip():
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


def _answers(message: SessionMessage | Exception | None) -> bool:
    return isinstance(message, SessionMessage) and not hasattr(message.message, "method")


async def start_program(
    environment: Environment, command: Sequence[str], env: Mapping[str, str], cwd: str | None = None
) -> StdioServer:
    """Start a server's program. Raises EnvironmentFailed."""
    words = [str(with_home(word)) if word.startswith("~/") else word for word in command]
    return StdioServer(await environment.spawn(ExecRequest(f"exec {shlex.join(words)}", cwd=cwd, env=env)))
