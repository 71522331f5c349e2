"""Protocols of a remote backend that can keep a shell: links that open channels.

A ``Channel`` is one process over there and the bytes to and from it; a ``Link`` opens them. Both are plain and synchronous:
``Link.open`` may block (it is called in a worker thread), ``Channel`` never does. Nothing here is bound to an event loop, since
a session's calls may come from several; a caller waits for ``Channel.fileno`` in its own loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

Stream: TypeAlias = Literal["stdout", "stderr"]


class ChannelEnded(Exception):
    """The far side closed the channel. ``code`` is its process's exit code, 128 + N for signal N; None where nobody said how
    it ended (a transport that died looks like this too), which is never to be taken for success.
    """

    def __init__(self, code: int | None) -> None:
        super().__init__(f"the channel ended ({'its exit code is not known' if code is None else f'exit code {code}'})")
        self.code = code


class ChannelBroken(Exception):
    """The way there broke: reset, cut, timed out. What ran there may still run. The text says what is known."""


class Channel(Protocol):
    """A process on the far side, its stdin, and its stdout and stderr kept apart.

    Used by one thread at a time, though not always by the same one. No method waits. After ChannelEnded or ChannelBroken was
    raised, only ``close`` is called.
    """

    def fileno(self) -> int:
        """A descriptor of this machine that is readable (level-triggered, as ``select`` sees it) while ``read`` has something
        to give or to raise, but for what is left in a buffer of the channel's own: callers read until None. The same one until
        ``close``.
        """
        ...

    def read(self) -> tuple[Stream, bytes] | None:
        """The next chunk (at most some 64 KiB, never empty), in the order it came within its stream. None where there is nothing
        now. Raises ChannelEnded once everything has been read and the far side has closed, ChannelBroken where the way broke.

        What is not read must hold the far side back (flow control): it is never collected without bound.
        """
        ...

    def write(self, data: bytes | memoryview) -> int:
        """Send bytes and return how many were taken. After 0 the caller tries again a little later.

        Raises ChannelEnded or ChannelBroken.
        """
        ...

    def close_input(self) -> None:
        """The process meets the end of its stdin after what was written. May be called twice."""
        ...

    def close(self) -> None:
        """Close the channel, at once and without waiting for the far side, whose process may live on: end that one before.

        May be called twice, also from another thread when nobody else uses it any more.
        """
        ...


class Link(Protocol):
    """The way to a container, or to an account on a host. Its methods may block, and may be called from any thread."""

    @property
    def where(self) -> str:
        """The environment's name in results, such as ``docker:NAME`` or ``ssh:USER@HOST``."""
        ...

    @property
    def epoch(self) -> int:
        """Number that grows whenever the container itself was replaced, so that what lived in it is gone. Connecting again to
        the same host is no reason to grow.
        """
        ...

    def open(self, argv: Sequence[str]) -> Channel:
        """Start ``argv`` there: without a terminal, leading a session (setsid) of its own, in any folder. Variables are those
        that the container or account gives every process; never this process's own.

        Connects, or makes the container, where that is needed: at the first call, and again after it was lost. Tries once, and
        within a bounded time. Raises EnvironmentFailed with what is wrong and how to put it right.
        """
        ...

    def variables(self) -> Mapping[str, str] | None:
        """Return the variables of every process there, or None where that requires a new container or connection. May block.

        Raises EnvironmentFailed.
        """
        ...

    def leave(self, folder: str) -> None:
        """Note the folder that was made there for this session: it is removed when this process is killed, as far as the
        backend can.
        """
        ...

    def diagnose(self) -> str:
        """Return why channels were just lost, as far as a few seconds suffice to find out: a sentence without a full stop ("the
        container NAME was removed"), or "" where nothing is wrong. Never raises.
        """
        ...

    def halted(self) -> str:
        """Return why nothing runs there now though nothing is lost ("the container NAME is paused"), as ``diagnose`` words it,
        else "". May block for some seconds; never raises.
        """
        ...

    def silence(self) -> str:
        """Return a sentence that says so if the environment itself has just ended everything because it had heard nothing from
        us, else "". May block for some seconds; never raises.
        """
        ...

    def advice(self) -> str:
        """Return what to do where no shell could be started, as words that follow ``diagnose`` at the end of a sentence. Never
        raises.
        """
        ...

    def release_connections(self) -> None:
        """Let go of connections: no channel is open, and ``open`` makes them anew. The container stays. May block."""
        ...

    def close(self) -> None:
        """Close everything, and remove what was made for this session. May be called twice."""
        ...
