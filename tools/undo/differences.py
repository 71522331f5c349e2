"""Changes of a session's tools in files: each as it was before the first change, against what is there now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from toolcrib import Environment, EnvironmentFailed
from toolcrib._dataclass import dataclass
from toolcrib._undo import ChangeStep, FileChange
from tools.files.differing import NOWHERE, unified
from tools.undo.choose import is_background
from tools.undo.keeper import UndoStore, holder_of, size_of

MOST_BYTES = 2_000_000
"""Bytes of a file that are compared."""


@dataclass(frozen=True, slots=True)
class FileDifference:
    """``lines`` are those of a unified diff, without line feeds; where ``why`` says why there is none, they are empty."""

    path: str
    lines: tuple[str, ...] = ()
    why: str = ""


Other: TypeAlias = Callable[[str], Awaitable[bytes | None]]
"""Another store of contents: return one by its digest, None if it is not kept."""


async def differences(
    keeps: UndoStore, environment: Environment, steps: Sequence[ChangeStep], other: Other | None = None
) -> list[FileDifference]:
    """Compare each file that the steps changed with its content before the first of them. ``other`` has contents that ``keeps``
    does not have.

    A file that is as it was is left out; so are changes that were undone, and those of programs in the background. Raises
    EnvironmentFailed and StoreFailed.
    """
    first: dict[tuple[str, str], FileChange] = {}
    for step in steps:
        for change in step.changes:
            if change.in_effect and step.kind == "call" and not is_background(step):
                first.setdefault((change.holder, change.path), change)
    found = [await _compared(keeps, environment, change, other) for change in first.values()]
    return [one for one in sorted(found, key=lambda one: one.path) if one.lines or one.why]


async def _compared(keeps: UndoStore, environment: Environment, change: FileChange, other: Other | None) -> FileDifference:
    path = change.path
    if holder_of(environment, path) != change.holder:
        return FileDifference(path, why=f"it is elsewhere: {change.holder}")
    if change.lost:
        return FileDifference(path, why=f"what it was before is not kept: {change.lost}")
    before = b"" if change.before is None else await keeps.contents.get(change.before.digest)
    if before is None and other is not None and change.before is not None:
        before = await other(change.before.digest)
    if before is None:
        return FileDifference(path, why="what it was before is not kept any more")
    info = await environment.stat(path)
    if info is not None and info.kind != "file":
        return FileDifference(path, why=f"it is a {info.kind} now")
    try:
        after = b"" if info is None else await environment.read_file(path, limit=MOST_BYTES + 1)
    except (OSError, EnvironmentFailed) as error:
        return FileDifference(path, why=f"it can't be read: {error}")
    if before == after and (change.before is None) == (info is None):
        return FileDifference(path)
    if max(len(before), len(after)) > MOST_BYTES:
        return FileDifference(path, why=f"too large to compare ({size_of(max(len(before), len(after)))})")
    old, new = _text(before), _text(after)
    if old is None or new is None:
        return FileDifference(path, why=f"binary; {size_of(len(before))} before, {size_of(len(after))} now")
    shown = path.lstrip("/")
    names = NOWHERE if change.before is None else f"a/{shown}", NOWHERE if info is None else f"b/{shown}"
    lines = unified(old, new, *names).removesuffix("\n").split("\n")
    return FileDifference(path, tuple(filter(None, lines)) or (f"--- {names[0]}", f"+++ {names[1]}"))


def _text(data: bytes) -> str | None:
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None
