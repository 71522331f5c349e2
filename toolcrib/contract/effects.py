"""Effects of a call, declared by the tool itself before it runs, in terms that gates can judge.

A tool of kind ``edit`` or ``execute`` declares ``effects=`` at registration: a function of (args, ctx), sync or async, that
returns these. Paths are what ``ctx.environment.resolve`` answered, so that what is judged is what will be opened.
A tool that acts and declares nothing is opaque, and opaque is asked about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from toolcrib.contract.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ShellState:
    """State of a shell that outlives a command: gates read the next command in its light.

    ``aliases`` and ``functions`` are by name, the latter with their bodies as source text. ``aliases_on``: it expands aliases.
    ``attributes`` are letters of ``declare`` (such as ``x``, ``i``, ``n``, ``A``) by variable, of those that have any;
    ``arrays`` hold elements by index or key; ``traps`` what runs at a signal, by its name as the shell says it.
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
    """Shell text, run in ``cwd`` (absolute, in the environment). ``shell`` is the one that reads it, None: a new one.

    ``outside``: it runs outside the environment's sandbox, and ``cwd`` and ``shell`` are those outside. ``hosts``: the sandbox
    reaches these too while it runs (see LimitsHosts).
    """

    command: str
    cwd: str
    shell: ShellState | None = None
    outside: bool = False
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadsFile:
    """Reads the file at ``path`` (absolute and free of links)."""

    path: str


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
    """Shows people ``text``, in the chat ``to`` (``PLATFORM/CHAT``, one name for one chat). ``whom`` names the chat for whoever
    is asked, ``files`` what goes with it (names, with a digest of the content where that is known).

    ``is_free``: nobody is asked, as it is a chat of whom the call acts for, or one that the operator allowed. ``aside`` names the
    chat for those alone who may agree, where whom the call acts for may not know which one ``to`` means, or whether there is any.
    """

    to: str
    text: str
    whom: str = ""
    files: tuple[str, ...] = ()
    is_free: bool = False
    aside: str = ""


@dataclass(frozen=True, slots=True)
class SchedulesJob:
    """Has a task done later, by itself, with the rights of whom the call acts for. All is as it will be, and none of it depends
    on when it is asked: ``schedule`` is JSON, as tools.schedules has it, and relative where its words are. ``replaces`` is the
    id of the job that it takes the place of, "" for a new one. ``to`` says for people where the answers go.
    """

    task: str
    schedule: str
    name: str = ""
    to: str = ""
    unattended: str = ""
    missed: str = ""
    replaces: str = ""


Effect: TypeAlias = RunsCommand | ReadsFile | WritesFile | DeletesFile | SchedulesJob | SendsMessage
