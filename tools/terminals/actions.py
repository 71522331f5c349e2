"""Actions of the tools ``terminal`` and ``process`` on a terminal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from toolcrib.contract.effects import Effect, UsesProcess, WritesInput
from toolcrib.contract.errors import ExecutionFailed
from toolcrib.contract.terminal import TerminalSize
from tools.environments.shell.driver import quote
from tools.processes.process import GONE, Process
from tools.processes.table import ProcessTable
from tools.processes.waiting import Until
from tools.terminals.modes import require_usual_input
from tools.terminals.prompts import PromptWatch
from tools.terminals.secrets import Redact
from tools.terminals.terminal import CHANGED, HELD, SessionTerminal
from tools.terminals.typed import END, INTERRUPT, Typing, keys_of, lines_of, typing

_LOOK = 0.02
_SETTLED, _MOST = 0.05, 1.0
"""Seconds without output after which the screen shows what keys did, and seconds to wait for that at most."""
STAYS = 2.0
"""Seconds without output after which a program that still runs stays in the background."""
_LONGEST = 16_000
"""Characters of lines above the screen that one result has at most."""


def terminal_of(table: ProcessTable, name: str, record: Mapping[str, Any] = MappingProxyType({})) -> SessionTerminal:
    """Return the terminal of a process. ``record``: see tools.processes.records. Raises ExecutionFailed if it has none."""
    terminal = table.terminals.get(name)
    if terminal is None:
        raise ExecutionFailed(f"{name} {GONE if record.get('pty') else 'has no terminal: start it with pty: true'}")
    return terminal


# -- typing --------------------------------------------------------------------------------------------------------------


def _typing(terminal: SessionTerminal, args: Mapping[str, Any]) -> Typing:
    """Return what a call of ``keys``, ``write`` or ``close_input`` presses. Raises InvalidArguments."""
    match args["action"]:
        case "write":
            keys = lines_of(str(args["text"]))
        case "close_input":
            keys = (END,)
        case _:
            keys = keys_of(args["keys"])
    return typing(terminal.typed, keys)


async def typing_effects(table: ProcessTable, args: Mapping[str, Any], record: Mapping[str, Any]) -> Sequence[Effect]:
    """Return what typing into a terminal does. Raises ExecutionFailed for typing that is not possible or not allowed."""
    name = str(args["name"])
    terminal = terminal_of(table, name, record)
    if not terminal.runs:
        raise ExecutionFailed(f"nothing was typed: {name} has ended")
    if terminal.is_held:  # before an approval request
        raise ExecutionFailed(f"nothing was typed: {HELD}")
    typed = _typing(terminal, args)
    if typed.only_ends:
        return [UsesProcess(name, "interrupts it" if INTERRUPT in typed.keys else "closes its input")]
    await require_usual_input(table.terminals, terminal, name)
    return [_effect(table, name, terminal, typed, record)]


def _effect(table: ProcessTable, name: str, terminal: SessionTerminal, typed: Typing, record: Mapping[str, Any]) -> WritesInput:
    given = table.inputs.get(name)
    command, cwd = str(record.get("command", "")), str(record.get("cwd", ""))
    shell, before = (None if given is None else given.shell), terminal.typed.written
    return WritesInput(name, typed.text, command, cwd, shell, before, typed.keys, typed.certain)


async def press(table: ProcessTable, args: Mapping[str, Any], record: Mapping[str, Any], judged: Sequence[Effect]) -> None:
    """Press exactly the keys that the gates judged, and wait until the screen shows what they did. Raises ExecutionFailed."""
    name = str(args["name"])
    terminal = terminal_of(table, name)
    typed = _typing(terminal, args)
    if not typed.only_ends:
        await require_usual_input(table.terminals, terminal, name)
        typed = _typing(terminal, args)
        if list(judged) != [_effect(table, name, terminal, typed, record)]:
            raise ExecutionFailed(CHANGED)
    elif not judged or not isinstance(judged[0], UsesProcess):
        raise ExecutionFailed(CHANGED)
    await terminal.press(typed)
    give_up, pressed = time.monotonic() + _MOST, time.monotonic()
    while terminal.runs and time.monotonic() < give_up:
        await asyncio.sleep(_LOOK)
        if terminal.quiet >= _SETTLED and time.monotonic() - pressed >= 2 * _SETTLED:
            break


# -- looking -------------------------------------------------------------------------------------------------------------


def shown(terminal: SessionTerminal, redact: Redact, *, whole: bool = False) -> dict[str, Any]:
    """Return the screen, or the rows that changed, and the lines that left it, as fields of a result."""
    note, look = terminal.note, terminal.look(redact, whole=whole)
    data: dict[str, Any] = {"screen" if look.is_whole else "changed": look.text}
    if note:
        data["note"] = note
    if look.above:
        cut = len(look.above) > _LONGEST
        data["scrolled"] = look.above[-_LONGEST:].partition("\n")[2] if cut else look.above
    if look.omitted or len(look.above) > _LONGEST:
        data["omitted"] = "earlier lines that scrolled away; action log has the last 2,000"
    return data


async def wait_for(
    table: ProcessTable, name: str, until: Until, is_cancelled: Callable[[], bool], *, prompt: bool = False
) -> tuple[str, Process]:
    """Return what came first, and the process; see ``wait_until``. ``pattern`` is searched on the screen and in the lines
    that were printed since the last look; ``prompt``: it seems to wait at a prompt.
    """
    terminal = terminal_of(table, name)
    began, printed, searched = time.monotonic(), -1, terminal.seen
    watch = PromptWatch(table.terminals, terminal)
    while True:
        runs = terminal.runs  # the last look comes after all that it printed
        if until.pattern is not None and printed != terminal.printed:
            printed = terminal.printed
            news, searched = terminal.news(searched)
            if await table.search(f"printf %s {quote(news)}", [until.pattern], 1):
                return "pattern", await table.one(name)
        if not runs:
            return "exit", await table.one(name)
        if prompt and await watch.sees():
            return "prompt", await table.one(name)
        if until.port is not None and until.port in await table.ports(name):
            return "port", await table.one(name)
        waited = time.monotonic() - began
        if until.quiet is not None and min(terminal.quiet, waited) >= until.quiet:
            return "quiet", await table.one(name)
        if is_cancelled():
            return "interrupted", await table.one(name)
        if waited >= until.timeout:
            return "timeout", await table.one(name)
        await asyncio.sleep(_LOOK if waited < 1 else 5 * _LOOK)


async def resize(table: ProcessTable, args: Mapping[str, Any]) -> None:
    """Change a terminal's size, and give its program time to draw. Raises ExecutionFailed while a user types in it."""
    terminal = terminal_of(table, str(args["name"]))
    if terminal.is_held:
        raise ExecutionFailed(HELD)
    await terminal.resize(TerminalSize(args["columns"], args["rows"]))
    await asyncio.sleep(4 * _SETTLED)


def log_lines(terminal: SessionTerminal, redact: Redact, lines: int) -> tuple[str, int]:
    """Return the last lines of a terminal's history and screen, and how many there are."""
    every = terminal.text(redact).split("\n")
    return "\n".join(every[-lines:]), len(every)
