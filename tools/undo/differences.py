"""Differences of files: what a session's tools changed, and what an undo would change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import EnvironmentFailed
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.undo import FileState
from tools.files.differing import NOWHERE, unified
from tools.undo.choose import UndoTarget
from tools.undo.keeper import UndoStore, holder_of, size_of

if TYPE_CHECKING:
    from tools.undo.snapshots.calls import SnapshotRestore

MOST_BYTES = 2_000_000
"""Maximum size of a file to compare, in bytes."""
_NOT_KEPT = "its earlier content is not kept any more"


@dataclass(frozen=True, slots=True)
class FileDifference:
    """A file's difference. ``lines``: a unified diff without line feeds; empty if ``why`` gives the reason."""

    path: str
    lines: tuple[str, ...] = ()
    why: str = ""


class PathState(NamedTuple):
    """State of an existing path: its kind and mode, and the content of a file or the target of a link.

    ``why``: the reason why the content cannot be shown, "" if ``data`` has it.
    """

    kind: str = "file"
    mode: int | None = None
    data: bytes = b""
    why: str = ""


def too_large(size: int) -> str:
    """Return the reason why a file of this size is not compared, "" if it is."""
    return f"too large to compare ({size_of(size)})" if size > MOST_BYTES else ""


async def differences(
    keeps: UndoStore,
    environment: Environment,
    targets: Sequence[UndoTarget],
    beside: SnapshotRestore | None = None,
    *,
    is_undo: bool = False,
) -> list[FileDifference]:
    """Compare each target's file as it was before the target's changes with the current file; in reverse order with ``is_undo``.

    ``beside`` has the files that snapshots know. Unchanged files are left out. Raises EnvironmentFailed and StoreFailed.
    """
    pairs = {} if beside is None else await beside.states()
    known = {} if beside is None else {item.path for item in beside.items}
    for target in targets:
        if target.path not in known:
            pairs[target.path] = await _before(keeps, environment, target), await _now(environment, target.path)
    found = [_compared(path, *(pair[::-1] if is_undo else pair)) for path, pair in sorted(pairs.items())]
    return [one for one in found if one.lines or one.why]


async def _before(keeps: UndoStore, environment: Environment, target: UndoTarget) -> PathState | None:
    if holder_of(environment, target.path) != target.holder:
        return PathState(why=f"it is in another environment: {target.holder}")
    if target.lost:
        return PathState(why=f"its earlier content is not kept: {target.lost}")
    state: FileState | None = target.to
    if state is None:
        return None
    data = await keeps.contents.get(state.digest)
    return PathState("file", state.mode, data or b"", _NOT_KEPT if data is None else too_large(len(data)))


async def _now(environment: Environment, path: str) -> PathState | None:
    info = await environment.stat(path)
    if info is None or info.kind != "file":
        return None if info is None else PathState(info.kind, info.mode)
    try:
        data = await environment.read_file(path, limit=MOST_BYTES + 1)
    except (OSError, EnvironmentFailed) as error:
        return PathState("file", info.mode, why=f"it can't be read: {error}")
    return PathState("file", info.mode, data, too_large(info.size))


def _compared(path: str, old: PathState | None, new: PathState | None) -> FileDifference:
    if why := next((one.why for one in (old, new) if one is not None and one.why), ""):
        return FileDifference(path, why=why)
    kinds = [None if one is None else one.kind for one in (old, new)]
    if {"file", "link"}.issuperset(filter(None, kinds)):
        return _lines(path, old, new)
    if kinds[0] != kinds[1]:
        return FileDifference(path, why=" becomes ".join(kind or "nothing" for kind in kinds))
    return FileDifference(path, tuple(_modes(path, old, new)))


def _lines(path: str, old: PathState | None, new: PathState | None) -> FileDifference:
    before, after = (b"" if one is None else one.data for one in (old, new))
    texts = _text(before), _text(after)
    modes = _modes(path, old, new)
    if None in texts:
        why = f"binary; {size_of(len(before))} becomes {size_of(len(after))}"
        return FileDifference(path, why="; ".join([why, *modes[1:]])) if before != after else FileDifference(path, tuple(modes))
    shown = path.lstrip("/")
    names = NOWHERE if old is None else f"a/{shown}", NOWHERE if new is None else f"b/{shown}"
    lines = list(filter(None, unified(texts[0] or "", texts[1] or "", *names).removesuffix("\n").split("\n")))
    if not lines and (old is None) != (new is None):
        lines = [f"--- {names[0]}", f"+++ {names[1]}"]
    return FileDifference(path, (*modes, *lines))


def _modes(path: str, old: PathState | None, new: PathState | None) -> list[str]:
    """Return the lines for a changed mode or kind, in git's form."""
    if old is None or new is None or None in (old.mode, new.mode) or (old.kind, old.mode) == (new.kind, new.mode):
        return []
    said = [f"{state.mode:o}{f' ({state.kind})' if old.kind != new.kind else ''}" for state in (old, new)]
    return [f"diff a/{path.lstrip('/')} b/{path.lstrip('/')}", f"old mode {said[0]}", f"new mode {said[1]}"]


def _text(data: bytes) -> str | None:
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None
