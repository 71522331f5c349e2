"""The contract of terminals (PTYs) that an environment opens for programs."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.environment import BackgroundProcess, ExecRequest

_MOST = 0xFFFF


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """The size of a terminal in characters, 1 to 65,535 each. Raises ValueError."""

    columns: int = 80
    rows: int = 24

    def __post_init__(self) -> None:
        if not (1 <= self.columns <= _MOST and 1 <= self.rows <= _MOST):
            raise ValueError(f"a terminal can't have {self.columns} columns and {self.rows} rows: use 1 to {_MOST} of each")


class TerminalProcess(BackgroundProcess, Protocol):
    """A command in a terminal of its own, which is its stdin, stdout and stderr.

    ``read`` returns all output as "stdout". ``write`` types: the terminal echoes, and turns C-c (b"\\x03") into SIGINT.
    ``close_stdin`` types C-d, the end of input at the beginning of a line. When the command has ended, the terminal hangs up, so
    ``wait`` and the end of ``read`` do not wait for processes that it left. ``wait`` raises EnvironmentFailed if the exit code is
    unknown, because the environment was lost. ``kill`` first sends SIGHUP, as a closed terminal does.
    """

    async def resize(self, size: TerminalSize) -> None:
        """Change the terminal's size. The program in the foreground gets SIGWINCH. Does nothing after the command's end."""
        ...


@runtime_checkable
class OpensTerminals(Protocol):
    """An environment that can run a command in a terminal."""

    async def open_terminal(self, request: ExecRequest, size: TerminalSize) -> TerminalProcess:
        """Start a command as ``spawn`` does, in a new session whose controlling terminal is a new PTY of this size.

        TERM is ``xterm-256color`` if the request's ``env`` has none; COLUMNS and LINES are unset. A program that prints more than
        is read has to wait. If cancelled, first end what was started. Raises EnvironmentFailed.
        """
        ...
