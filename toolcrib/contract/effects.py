"""Effects of a call, which the tool declares before it runs, in terms that gates can judge.

A tool of kind ``edit`` or ``execute`` declares ``effects=`` at registration: a function of (args, ctx), sync or async, that
returns a sequence of the classes below. Paths are results of ``ctx.environment.resolve``, so gates judge the path that will be
opened. A tool that acts and declares no effects is opaque, and a user is asked about its calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from toolcrib.contract.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ShellState:
    """State that a shell keeps after a command. Gates need it to interpret the next command.

    ``aliases`` are texts by name, ``functions`` the source text of bodies by name. ``aliases_on``: the shell expands
    aliases. ``attributes`` are letters of ``declare`` (such as ``x``, ``i``, ``n``, ``A``) by variable, for variables that have
    any; ``arrays`` hold elements by index or key; ``traps`` are commands by the shell's name of their signal.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    positional: tuple[str, ...] = ()
    aliases_on: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    traps: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunsCommand:
    """Shell text that runs in ``cwd`` (absolute, in the environment). ``shell`` is the state of the shell that reads
    it, or None for a new shell.

    ``outside``: it runs outside the environment's sandbox, and ``cwd`` and ``shell`` are those outside. ``hosts``: hosts
    that the sandbox can also reach while the command runs (see LimitsHosts). ``background``: it continues after the call.
    ``open_input``: its input stays open, so that later calls can write to it. ``terminal``: it runs in a terminal of its own,
    which later calls type into.
    """

    command: str
    cwd: str
    shell: ShellState | None = None
    outside: bool = False
    hosts: tuple[str, ...] = ()
    background: bool = False
    open_input: bool = False
    terminal: bool = False


@dataclass(frozen=True, slots=True)
class WritesInput:
    """Writes ``text`` to the input of the background process ``process``, which runs ``command``. ``cwd`` and ``shell`` are
    those of its start.

    ``before`` is everything that was written to it earlier, or None if that is unknown. ``keys``: the keys that are pressed, if
    it runs in a terminal: names such as ``Up``, and texts that begin with ``text:``; ``text`` is then the unfinished line and
    what the keys type. ``certain``: False if keys edit or recall a line, so that the program may read another text.
    """

    process: str
    text: str
    command: str
    cwd: str
    shell: ShellState | None = None
    before: str | None = ""
    keys: tuple[str, ...] = ()
    certain: bool = True


@dataclass(frozen=True, slots=True)
class UsesProcess:
    """Looks at the session's own background process ``process`` ("" for all), or, if ``changes`` is not "", does to it what that
    says, such as "ends it".
    """

    process: str
    changes: str = ""


@dataclass(frozen=True, slots=True)
class ReadsFile:
    """Reads the file at ``path`` (absolute and free of links), or files below a folder there, except at and below ``without``."""

    path: str
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WritesFile:
    """Creates or replaces the file at ``path`` (absolute and free of links)."""

    path: str
    content: str | None = None


@dataclass(frozen=True, slots=True)
class DeletesFile:
    """Deletes the file at ``path`` (absolute and free of links)."""

    path: str


@dataclass(frozen=True, slots=True)
class SendsMessage:
    """Shows people ``text`` in the chat ``to`` (``PLATFORM/CHAT``; a chat has only one such name). ``whom`` names the chat in the
    approval request. ``files`` are the names of the files that are sent along, with a digest of the content if it is known.

    ``is_free``: no approval is needed, because the chat belongs to the principal or the operator allowed it. ``aside`` names the
    chat only for users who may approve, if the principal may not learn which chat ``to`` is, or whether it exists.
    """

    to: str
    text: str
    whom: str = ""
    files: tuple[str, ...] = ()
    is_free: bool = False
    aside: str = ""


@dataclass(frozen=True, slots=True)
class SchedulesJob:
    """Schedules a task for later, with the rights of the call's principal. All fields are final, and do not depend on when the
    user is asked. ``schedule`` is JSON in the form of tools.schedules; times that were given relatively stay relative.
    ``replaces`` is the id of the job that this one replaces, "" for a new job. ``to`` describes for people where the answers
    are sent.
    """

    task: str
    schedule: str
    name: str = ""
    to: str = ""
    unattended: str = ""
    missed: str = ""
    replaces: str = ""


@dataclass(frozen=True, slots=True)
class CallsServer:
    """Calls the tool ``tool`` of the MCP server ``server``, under the server's own name for it. What the server does is unknown.

    ``where`` describes for users where the server runs. ``destroys``: the server declares that the call may destroy something.
    A server's other declarations are not believed.
    """

    server: str
    tool: str
    where: str = ""
    destroys: bool = False


Effect: TypeAlias = (
    RunsCommand | WritesInput | UsesProcess | ReadsFile | WritesFile | DeletesFile | SchedulesJob | SendsMessage | CallsServer
)
