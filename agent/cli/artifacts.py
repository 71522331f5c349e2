"""``toolcrib sessions artifacts``: list the large results of a session, show one, or write one into a file."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from agent.cli.app import OK
from toolcrib.contract.artifacts import PREFIX
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from agent.artifacts import ArtifactHit, SessionArtifact
    from agent.process import Crib

_BOLD, _PLAIN = "\x1b[1m", "\x1b[22m"
_SPARE = (3,)
"""The column that a narrow terminal drops: when the artifact was stored."""


async def artifacts(crib: Crib, args: argparse.Namespace) -> int:
    """List the artifacts of a session, or show the named one. Return the exit code. Raises ToolcribError."""
    from agent.artifacts import artifacts_of

    if not args.id:
        raise ToolcribError("give the session: toolcrib sessions artifacts ID, or toolcrib sessions artifacts ID artifact:NAME")
    if len(args.words) > 1:
        raise ToolcribError(f"give one name: toolcrib sessions artifacts {args.id} {args.words[0]}")
    info = await crib.find_session(args.id)
    if args.words:
        return await show(crib, args, args.words[0], info.id)
    found = await artifacts_of(crib.store, info.id)
    if args.json:
        print(json.dumps([as_json(one) for one in found], ensure_ascii=False, indent=2))
    elif found:
        _table(found)
        print(
            f"\nto show one: toolcrib sessions artifacts {info.id[:12]} {found[-1].kept.name}; -o FILE writes it", file=sys.stderr
        )
    else:
        print("this session has no artifacts (results that are too long for a model)")
    return OK


async def show(crib: Crib, args: argparse.Namespace, name: str, session_id: str | None = None) -> int:
    """Show an artifact, or write it into ``args.output``. Without ``session_id`` all sessions are searched. Return the exit code.
    Raises ToolcribError.
    """
    from agent.artifacts import find_artifact
    from toolcrib.contract.search import SearchFilter

    if not name.removeprefix(PREFIX).isalnum():
        raise ToolcribError(
            f"{name!r} is not the name of an artifact: {PREFIX} and digits, as `toolcrib sessions artifacts ID` lists them"
        )
    kept, data = await find_artifact(crib.store, name, SearchFilter(session_id=session_id))
    if args.json:
        raise ToolcribError(
            f"an artifact is printed unchanged; for a list as JSON: toolcrib sessions artifacts {kept.session_id[:12]} --json"
        )
    if args.output is None:
        _print(data)
        return OK
    _write(args.output, data, force=args.force)
    return OK


def as_json(one: SessionArtifact) -> dict[str, object]:
    """Return the artifact's name, digest, size, tool and time as JSON."""
    kept = one.kept
    return {"name": kept.name, "digest": kept.digest, "size": kept.size, "tool": one.tool, "at": kept.at}


# -- search results ----------------------------------------------------------------------------------------------------


def hit_json(hit: ArtifactHit) -> dict[str, object]:
    """Return a search hit as JSON. The key ``artifact`` distinguishes it from a message."""
    return {**asdict(hit.kept), "artifact": hit.kept.name, "line": hit.line, "snippet": hit.snippet, "marks": hit.marks}


def hit_lines(hits: Sequence[ArtifactHit], *, bold: bool) -> Iterator[str]:
    """Yield two lines for each artifact: its session, and the text that matched."""
    from agent.cli.escape import one_line, tame
    from agent.cli.short_forms import ID_CHARS, ago

    now = time.time()
    for hit in hits:
        yield f"{tame(hit.kept.session_id[:ID_CHARS])}  {ago(hit.kept.at, now)}  {one_line(hit.kept.title, 80)}"
        yield f"  {hit.kept.name}, line {hit.line}: {_marked(hit) if bold else tame(hit.snippet)}"


def unread_words(count: int) -> str:
    """Return a message with the number of artifacts that a search skipped."""
    return f"{count} artifact{' was' if count == 1 else 's were'} not searched: too old, too large or damaged"


def _marked(hit: ArtifactHit) -> str:
    from agent.cli.escape import tame

    parts, at = [], 0
    for start, end in hit.marks:
        parts += [tame(hit.snippet[at:start]), _BOLD, tame(hit.snippet[start:end]), _PLAIN]
        at = end
    return "".join([*parts, tame(hit.snippet[at:])])


# -- on the screen -----------------------------------------------------------------------------------------------------


def _table(found: Sequence[SessionArtifact]) -> None:
    from agent.cli.escape import one_line
    from agent.cli.render import table
    from agent.cli.short_forms import ago

    now = time.time()
    rows = [(one.kept.name, f"{one.kept.size:,}", one_line(one.tool, 40) or "-", ago(one.kept.at, now)) for one in found]
    table([("NAME", "BYTES", "TOOL", "KEPT"), *rows], spare=_SPARE, whole=(0,))


def _print(data: bytes) -> None:
    """Show the content, with terminal controls escaped, in a pager if standard output is a terminal."""
    from agent.artifacts import text_of
    from agent.cli.escape import tame
    from agent.cli.screen.external_programs import show_paged

    text = tame(text_of(data))
    show_paged(text if text.endswith("\n") or not text else f"{text}\n")


def _write(path: Path, data: bytes, *, force: bool) -> None:
    from agent.exporting import write

    write(path, data, force=force)
    print(f"wrote {path}", file=sys.stderr)
