"""``toolcrib sessions import``: import an exported file, or the history of another tool."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agent.cli.app import FAILED, OK
from agent.cli.escape import one_line, tame
from agent.cli.short_forms import ID_CHARS
from agent.importing.keeping import Fate, as_ours, keep
from agent.importing.session_files import ForeignSession, ImportFault
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.paths import with_home

if TYPE_CHECKING:
    from agent.process import Crib
    from toolcrib.contract.store import SessionInfo

_SHOWN = 20
"""Maximum number of sessions, and of faults, that are listed."""
_EVERY = 10
"""Sessions between two reports of progress."""
_WORDS: Mapping[Fate, str] = {
    "new": "new",
    "more": "with more messages than before",
    "known": "already there",
    "differs": "already there with other messages, so not changed; delete one to import it again",
    "busy": "in use by another process, so not changed",
}


class ForeignHistory(Protocol):
    """A module that reads the history of another tool."""

    SOURCE: str

    def default_path(self) -> Path: ...
    def read(self, path: Path, fault: Callable[[ImportFault], None]) -> Iterator[ForeignSession]: ...


async def bring(crib: Crib, args: argparse.Namespace) -> int:
    """Import the named files, or the history of another tool. Return FAILED if nothing could be read."""
    paths = _paths(args)
    if not args.source and not paths:
        raise ToolcribError("give the file: toolcrib sessions import FILE.json; or --from claude-code, codex or hermes")
    done = _Done(dry=args.dry_run)
    if args.source:
        await _from_tool(crib, _module(args.source), paths, done)
    else:
        await _from_files(crib, paths, done)
    if args.json:
        print(json.dumps(done.to_json(), ensure_ascii=False))
    else:
        print("\n".join(done.lines()))
    for line in done.told_faults():
        print(line, file=sys.stderr)
    return FAILED if done.faults and not done.kept else OK


def _paths(args: argparse.Namespace) -> list[Path]:
    return [with_home(word) for word in (args.id, *args.words) if word]


def _module(source: str) -> ForeignHistory:
    from agent.importing import claude_code, codex, hermes

    modules: Sequence[ForeignHistory] = (claude_code, codex, hermes)
    return next(module for module in modules if source == module.SOURCE)


async def _from_files(crib: Crib, paths: Sequence[Path], done: _Done) -> None:
    from agent.importing.own import read_export

    for path in paths:
        try:
            info, records = read_export(path)
        except ToolcribError as error:
            if len(paths) == 1:
                raise
            done.faults.append(ImportFault(path, 0, str(error).removeprefix(f"{path} ")))
            continue
        done.add(info, await keep(crib.store, info, records, dry=done.dry))


async def _from_tool(crib: Crib, tool: ForeignHistory, paths: Sequence[Path], done: _Done) -> None:
    redactor = crib.redactor()
    for path in paths or [tool.default_path()]:
        for found in tool.read(path, done.faults.append):
            info, records = as_ours(found, redactor)
            done.add(info, await keep(crib.store, info, records, found.times, grows=True, dry=done.dry))
            done.tick()


class _Done:
    """The outcome of an import."""

    def __init__(self, *, dry: bool) -> None:
        self.dry = dry
        self.faults: list[ImportFault] = []
        self.kept: list[tuple[SessionInfo, Fate]] = []

    def add(self, info: SessionInfo, fate: Fate) -> None:
        self.kept.append((info, fate))

    def tick(self) -> None:
        """Show the progress of a long import at a terminal; ``lines`` overwrite it."""
        if len(self.kept) % _EVERY == 0 and sys.stderr.isatty():
            print(f"{len(self.kept)} sessions read ...", end="\r", file=sys.stderr, flush=True)

    def lines(self) -> Iterator[str]:
        """Yield lines about the imported sessions, and the number of each outcome."""
        coming = [info for info, fate in self.kept if fate in ("new", "more")]
        for info in coming[:_SHOWN]:
            count = f"{info.messages} message{'' if info.messages == 1 else 's'}"
            whose = "" if (info.platform, info.user) == ("cli", "") else f", of {tame(info.user or '?')} on {tame(info.platform)}"
            yield f"  {tame(info.id[:ID_CHARS])}  {count}{whose}: {one_line(info.title, 80)}"
        if len(coming) > _SHOWN:
            yield f"  and {len(coming) - _SHOWN} more"
        counts = {fate: sum(one == fate for _, one in self.kept) for fate in _WORDS}
        told = [f"{number} {_WORDS[fate]}" for fate, number in counts.items() if number]
        yield f"{'would be imported' if self.dry else 'imported'}: {'; '.join(told) or 'nothing: no sessions found'}"

    def told_faults(self) -> Iterator[str]:
        """Yield lines about what could not be read, with file and line."""
        yield from (f"left out: {tame(str(fault))}" for fault in self.faults[:_SHOWN])
        if len(self.faults) > _SHOWN:
            yield f"and {len(self.faults) - _SHOWN} more that could not be read"

    def to_json(self) -> Mapping[str, Any]:
        """Return the session ids by outcome, and the faults."""
        faults = [{"path": str(one.path), "line": one.place, "why": one.why} for one in self.faults]
        return {**{fate: [info.id for info, one in self.kept if one == fate] for fate in _WORDS}, "faults": faults}
