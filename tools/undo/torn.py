"""Files left half written by a process that was killed while overwriting them in place, with both contents beside them."""

from __future__ import annotations

import posixpath
from collections.abc import AsyncIterator

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.environment import Environment
from toolcrib.contract.undo import FileState
from tools.environments.overwriting import OLD, beside_of
from tools.undo.choose import UndoTarget
from tools.undo.contents import digest_of


@dataclass(frozen=True, slots=True)
class Torn:
    """Contents of a half-written file before and after the changes to undo.

    ``before`` is None if there were several changes: the content before the first of them is not beside the file, but in the
    store.
    """

    before: bytes | None
    after: bytes


@dataclass(frozen=True, slots=True)
class _Pair:
    """Contents of the two files that a killed process left: ``path`` has the new content, ``path`` with ``OLD`` the old one."""

    path: str
    new: bytes
    old: bytes


async def find_torn(environment: Environment, target: UndoTarget, data: bytes) -> Torn | None:
    """Return both contents if the file was left half written by one of its changes, or by an undo of them; else None.

    ``data``: the file's current content. Raises EnvironmentFailed.
    """
    if target.broken or target.left is None:
        return None
    async for pair in _pairs(environment, target):
        if not _is_between(data, pair):
            continue
        if _is_of(pair.new, target.left):
            return Torn(pair.old if _is_of(pair.old, target.to) else None, pair.new)
        if _is_of(pair.old, target.left) and _is_of(pair.new, target.to):
            return Torn(pair.new, pair.old)
    return None


async def tidy(environment: Environment, target: UndoTarget) -> None:
    """Remove what a killed process left beside a file that is complete again. Raises EnvironmentFailed."""
    async for pair in _pairs(environment, target):
        if any(_is_of(each, state) for each in (pair.new, pair.old) for state in (target.left, target.to)):
            for path in (pair.path, f"{pair.path}{OLD}"):
                try:
                    await environment.delete_file(path)
                except OSError:  # already removed, or not removable, which does no harm
                    continue


async def _pairs(environment: Environment, target: UndoTarget) -> AsyncIterator[_Pair]:
    folder, name = posixpath.split(target.path)
    try:
        listed = {posixpath.basename(each.path): each for each in await environment.list_dir(folder)}
    except OSError:  # an unreadable folder
        return
    most = max(state.size for state in (target.to, target.left, FileState("", 1 << 24)) if state is not None)
    for new in beside_of(name, listed):
        if max(listed[each].size for each in (new, f"{new}{OLD}")) > most:
            continue
        path = posixpath.join(folder, new)
        try:
            yield _Pair(path, await environment.read_file(path), await environment.read_file(f"{path}{OLD}"))
        except OSError:  # gone, or unreadable
            continue


def _is_of(data: bytes, state: FileState | None) -> bool:
    """Return True if ``data`` is the content of ``state``. If the content was too big to be kept, compare only the size."""
    return state is not None and len(data) == state.size and state.digest in ("", digest_of(data))


def _is_between(data: bytes, pair: _Pair) -> bool:
    """Return True if ``data`` starts with a part of the new content and continues with the old one or ends there.

    Zeros may follow, where space was allocated. A beginning of the old content, which was being restored, may come first.
    """
    at = _agree(data, pair.old, 0)
    at = _agree(data, pair.new, at)
    return at == len(data) or data[at:] == pair.old.ljust(len(data), b"\0")[at : len(data)]


def _agree(one: bytes, other: bytes, begin: int) -> int:
    """Return the end of the part that is equal in both, from ``begin`` on."""
    low, high = begin, max(begin, min(len(one), len(other)))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
