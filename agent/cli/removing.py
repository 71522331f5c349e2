"""``toolcrib sessions delete`` and ``prune``: what is deleted with a session, and the question before it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from agent.cli.app import FAILED, OK
from agent.cli.drafts import forget_before, forget_of
from agent.cli.escape import one_line, tame
from agent.cli.short_forms import ID_CHARS, ago
from agent.cli.storing import kept_damaged
from agent.cli.terminal import confirm_by_word, is_interactive
from agent.config import state_dir
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from agent.process import Crib
    from toolcrib.contract.store import SessionInfo

_LARGEST = 64 * 1024 * 1024
"""Maximum size in bytes of an export that is searched for session ids."""


async def delete(crib: Crib, args: argparse.Namespace) -> int:
    """Delete the named sessions after confirmation. Return FAILED if the user declines, or if a session can't be deleted."""
    if not args.id:
        raise ToolcribError("give the id: toolcrib sessions delete ID ...")
    named = {info.id: info for info in [await crib.find_session(prefix) for prefix in (args.id, *args.words)]}
    lines = [_line(info) for info in named.values()]
    if not args.yes and not args.json:
        print("\n".join(lines))
    each = "this session" if len(named) == 1 else f"these {len(named)} sessions"
    question = f"Delete {each} permanently, with calls, approvals, undo data and unsent drafts?"
    if not _agreed(args, question):
        return FAILED
    used = [name for name in named if await crib.store.leases.holder(name) is not None]
    deleted = await crib.delete_sessions([name for name in named if name not in used])
    forget_of(state_dir() / "drafts", deleted)
    kept = [name for name in named if name not in deleted]
    copies, damaged = exports_of(deleted), kept_damaged(crib.config)
    if args.json:
        told = {"deleted": list(deleted), "kept": kept, "exports": list(map(str, copies)), "damaged": damaged}
        print(json.dumps(told, ensure_ascii=False))
        return FAILED if kept else OK
    print(f"deleted: {_count(len(deleted))}")
    for name in kept:
        print(
            f"{name[:ID_CHARS]} was kept: it is running, or an approval request or a message waits for it. To list requests:"
            " toolcrib approvals. Messages from a chat wait until the gateway runs",
            file=sys.stderr,
        )
    if copies:
        print("not deleted: files with exports of these sessions")
        print("\n".join(f"  {tame(str(path))}" for path in copies))
    _tell_of_damaged(damaged)
    return FAILED if kept else OK


async def prune(crib: Crib, args: argparse.Namespace) -> int:
    """Delete the sessions that were not used for a given time, after confirmation. Return the exit code."""
    if args.older_than is None or args.id:
        raise ToolcribError("give the age: toolcrib sessions prune --older-than 90d")
    before = time.time() - args.older_than
    number = await crib.store.old(before)
    which = "(This includes sessions of `toolcrib call`, which are not listed.)"
    if args.dry_run:
        print(json.dumps({"old": number}) if args.json else f"would be deleted: {_count(number)} {which}")
        return OK
    question = f"Delete {_count(number)} permanently, with their calls and undo data? {which}"
    if number and not _agreed(args, question):
        return FAILED
    number = await crib.store.prune(before)
    forget_before(state_dir() / "drafts", before)
    damaged = kept_damaged(crib.config)
    if args.json:
        print(json.dumps({"forgotten": number, "damaged": damaged} if damaged else {"forgotten": number}))
        return OK
    print(f"deleted: {_count(number)}")
    _tell_of_damaged(damaged)
    return OK


def exports_of(session_ids: Collection[str]) -> Sequence[Path]:
    """Return the known files into which one of these sessions was exported."""
    from agent.exporting import exports

    return [path for path in exports() if session_ids and _names(path, session_ids)]


def _names(path: Path, session_ids: Collection[str]) -> bool:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return False
        text = path.read_text("utf-8", errors="replace")
    except OSError:
        return False
    return any(name in text for name in session_ids)


def _agreed(args: argparse.Namespace, question: str) -> bool:
    """Ask for confirmation, unless --yes is given. Raises ToolcribError if no user can be asked."""
    if args.yes:
        return True
    if not is_interactive():
        raise ToolcribError(f"{question} No user can be asked here: add --yes")
    return confirm_by_word(question)


def _line(info: SessionInfo) -> str:
    count = f"{info.messages} message{'' if info.messages == 1 else 's'}"
    return f"  {info.id[:ID_CHARS]}  {ago(info.updated_at, time.time())}, {count}: {one_line(info.title, 80)}"


def _count(number: int) -> str:
    return f"{number} session{'' if number == 1 else 's'}"


def _tell_of_damaged(damaged: Sequence[str]) -> None:
    if damaged:
        print("not deleted: data in damaged files that repairs of the store kept; remove them yourself")
        print("\n".join(f"  {path}" for path in damaged))
