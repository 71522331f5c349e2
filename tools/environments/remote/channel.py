"""Interfaces that a remote backend implements: a link, and the channels that it opens.

A ``Channel`` is one process on the far side and the bytes to and from it; a ``Link`` opens them. Both are synchronous:
``Link.open`` may block (it is called in a worker thread), ``Channel`` never does. Neither is bound to an event loop, because a
session's calls may come from several. A caller waits for ``Channel.fileno`` in its own loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from toolcrib.contract.errors import EnvironmentFailed

if TYPE_CHECKING:
    from toolcrib.contract.terminal import TerminalSize

Stream: TypeAlias = Literal["stdout", "stderr"]


class ChannelEnded(Exception):
    """The far side closed the channel. ``code``: its process's exit code, 128 + N for signal N, or None if unknown.

    None must never count as success: a lost transport looks the same.
    """

    def __init__(self, code: int | None) -> None:
        super().__init__(f"the channel ended ({'its exit code is not known' if code is None else f'exit code {code}'})")
        self.code = code


class ChannelBroken(Exception):
    """The connection was lost: reset, cut, timed out. The process may still run. The text gives the known facts."""


class Channel(Protocol):
    """A process on the far side, its stdin, and its separate stdout and stderr.

    Used by one thread at a time, though not always the same one. No method blocks. After ChannelEnded or ChannelBroken was
    raised, only ``close`` is called.
    """

    def fileno(self) -> int:
        """Return a local descriptor that is readable (level-triggered, as in ``select``) while ``read`` has data or an error.

        It may not be readable if the only data is in the channel's own buffer, so callers read until None. The descriptor stays
        the same until ``close``.
        """
        ...

    def read(self) -> tuple[Stream, bytes] | None:
        """Return the next chunk (at most some 64 KiB, never empty), in order within its stream, or None if none is available.

        Raises ChannelEnded when everything was read and the far side has closed, ChannelBroken if the connection was lost. Unread
        data must slow the far side down (flow control): the channel never buffers without bound.
        """
        ...

    def write(self, data: bytes | memoryview) -> int:
        """Send bytes and return how many were accepted. After 0 the caller retries a little later.

        Raises ChannelEnded or ChannelBroken.
        """
        ...

    def close_input(self) -> None:
        """Close the process's stdin after the written data. May be called twice."""
        ...

    def close(self) -> None:
        """Close the channel at once, without waiting for the far side. Its process may continue to run, so end it first.

        May be called twice, even from another thread when the channel is no longer used.
        """
        ...


class TerminalChannel(Channel, Protocol):
    """A channel to a process in a terminal, whose only stream is stdout."""

    def resize(self, size: TerminalSize) -> None:
        """Change the terminal's size. May block. Does nothing if the process has ended or the connection is lost."""
        ...


class Link(ABC):
    """The connection to a container, or to an account on a host. Its methods may block and are callable from any thread.

    A subclass defines ``where``, ``open`` and ``close``. The other methods suit a backend that never fails by itself.
    """

    epoch: int = 0
    """Number that grows when the container itself was replaced, so that its processes are gone. Reconnecting does not count."""

    @property
    @abstractmethod
    def where(self) -> str:
        """The environment's name in results, such as ``docker:NAME`` or ``ssh:USER@HOST``."""

    @abstractmethod
    def open(self, argv: Sequence[str]) -> Channel:
        """Start ``argv`` on the far side, without a terminal, as the leader of its own session (setsid), in any folder.

        Its variables are the container's or account's, never this process's own. Connects or creates the container if needed: on
        the first call, and again after a loss. Tries once, within a bounded time. Raises EnvironmentFailed with the cause and the
        fix.
        """

    def open_terminal(self, argv: Sequence[str]) -> TerminalChannel:
        """As ``open``, but in a new terminal, which has no size (0 columns and rows) until it is resized."""
        raise EnvironmentFailed(f"{self.where} opens no terminals")

    def variables(self) -> Mapping[str, str] | None:
        """Return the variables of every process on the far side; None if only such a process knows them. May block.

        Raises EnvironmentFailed.
        """
        return None

    def leave(self, folder: str) -> None:  # noqa: B027 - most backends remove nothing
        """Record the folder that was made on the far side for this session. If this process is killed, the backend removes the
        folder if it can.
        """

    def diagnose(self) -> str:
        """Return why channels were just lost, if a few seconds suffice to find out, else "". Never raises.

        The result is a sentence without a full stop ("the container NAME was removed").
        """
        return ""

    def halted(self) -> str:
        """Return why nothing runs there although nothing is lost ("the container NAME is paused"), else "".

        May block for some seconds; never raises.
        """
        return ""

    def silence(self) -> str:
        """Return a sentence if the environment itself has just ended everything because it heard nothing from toolcrib, else "".

        May block for some seconds; never raises.
        """
        return ""

    def advice(self) -> str:
        """Return what to do if no shell could be started, as words that follow ``diagnose`` in a sentence. Never raises."""
        return "call again"

    def release_connections(self) -> None:  # noqa: B027 - most backends keep no connection
        """Close connections. Called while no channel is open; ``open`` connects again. The container stays. May block."""

    @abstractmethod
    def close(self) -> None:
        """Close everything, and remove what was made for this session. May be called twice."""
