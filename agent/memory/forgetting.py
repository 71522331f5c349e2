"""Forget a note: remove it from its document and from the prompts of sessions, and find copies that the user may delete."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from agent.exporting import exports
from agent.memory.document import MemoryNote
from agent.memory.files import MemoryFile, MemoryFolder
from toolcrib.contract.artifacts import KeptArtifact
from toolcrib.contract.context import Principal
from toolcrib.contract.errors import StoreFailed
from toolcrib.contract.regex import Regex
from toolcrib.contract.search import SearchFilter
from toolcrib.contract.store import SessionInfo, Store
from toolcrib.contract.types import Json

FoundNote: TypeAlias = tuple[MemoryFile, MemoryNote]
_DATE = r"(?: \(\d{4}-\d\d-\d\d\))?"
"""Matches the date, if any, after a note in a prompt: any date, because the same text may have been noted on another day."""
_BREAK = Regex(r"\\+[nrt]")
_CODE = Regex(r"\\+u([0-9a-fA-F]{4})")
_ESCAPE = Regex(r"\\+")
_ALL = 1 << 31
_LARGEST = 64 * 1024 * 1024
"""Largest export in bytes that is read."""


def notes_with(folder: MemoryFolder, text: str) -> Sequence[FoundNote]:
    """Return the principal's notes, of all projects, that contain a text, whatever its letter case. Raises MemoryUnreadable."""
    wanted = " ".join(text.casefold().split())
    return [
        (file, note)
        for file in folder.every_file()
        for note in file.read().notes
        if wanted in " ".join(note.text.casefold().split())
    ]


def files_saying(folder: MemoryFolder, text: str) -> Sequence[Path]:
    """Return the principal's documents that contain a text between the notes. Raises MemoryUnreadable."""
    wanted = " ".join(text.casefold().split())
    return [
        file.path
        for file in folder.every_file()
        if any(part.note is None and wanted in " ".join(part.raw.casefold().split()) for part in file.read().parts)
    ]


def remove(folder: MemoryFolder, found: Sequence[FoundNote]) -> None:
    """Remove notes from their documents. Raises MemoryUnreadable, and ToolcribError if a file can't be written."""
    with folder.held():
        for path in dict.fromkeys(file.path for file, _ in found):
            file = next(file for file, _ in found if file.path == path)
            gone = {note for where, note in found if where.path == path}
            document = file.read()
            left = document.without(note for note in document.notes if note in gone)
            folder.write(file, left.text())


async def unsay(store: Store, principal: Principal, notes: Sequence[MemoryNote]) -> Sequence[str]:
    """Remove the principal's notes from the stored prompts of sessions. Return the sessions' ids. Raises StoreFailed."""
    changed: list[str] = []
    for note in notes:
        told = "- " + "\n  ".join(note.text.splitlines())
        item = re.compile(rf"^{re.escape(told)}{_DATE}(?:\n(?!  )|\Z)", re.MULTILINE)

        def without(prompt: Mapping[str, Json], item: re.Pattern[str] = item) -> Mapping[str, Json]:
            if prompt.get("whose", "") != principal.key:
                return prompt
            return {**prompt, "memory": item.sub("", str(prompt.get("memory", "")))}

        changed += await store.rewrite_prompts(told, without)
    return list(dict.fromkeys(changed))


async def sessions_with(store: Store, principal: Principal, notes: Sequence[MemoryNote]) -> Sequence[SessionInfo]:
    """Return the principal's sessions that contain the words of a note.

    The words may be in messages, thinking, calls (also the user's own), approval requests, large results, the state that tools
    keep for the session, and the task of a delegate. Sessions of the principal's platform without a user count too, since any
    user may have spoken there. Raises StoreFailed.
    """
    wanted = [words for note in notes if (words := _flat(note.text))]

    def says(kept: str) -> bool:
        flat = _flat(kept)
        return any(words in flat for words in wanted)

    found = dict.fromkeys([*await store.saying(says), *await _with_artifacts(store, says)])
    for info in await store.sessions.list(_ALL):
        if info.id not in found and _is_of(info, principal) and await _keeps(store, info, says):
            found[info.id] = None
    named = [await store.sessions.get(name) for name in found]
    return [info for info in named if info is not None and _is_of(info, principal)]


async def _with_artifacts(store: Store, says: Callable[[str], bool]) -> Sequence[str]:
    """Return the sessions with a large result that ``says`` matches. Each content is read once; damaged ones are skipped."""
    found: list[str] = []
    known: dict[str, bool] = {}
    for kept in await store.artifacts.newest(SearchFilter(), _ALL):
        if kept.digest not in known:
            known[kept.digest] = await _says_artifact(store, kept, says)
        if known[kept.digest]:
            found.append(kept.session_id)
    return found


async def _says_artifact(store: Store, kept: KeptArtifact, says: Callable[[str], bool]) -> bool:
    with suppress(StoreFailed):
        data = await store.artifacts.get(kept.session_id, kept.digest)
        return data is not None and says(data.decode("utf-8", "replace"))
    return False


async def _keeps(store: Store, info: SessionInfo, says: Callable[[str], bool]) -> bool:
    """Return whether ``says`` matches data that is stored beside a session's messages."""
    values = (await store.state.of("session", info.id)).values()
    return any(map(says, info.place.values())) or any(says(json.dumps(one.value, default=str)) for one in values)


def _is_of(info: SessionInfo, principal: Principal) -> bool:
    whose = Principal(info.platform, info.user)
    return whose.key == principal.key or (not info.user and not whose.is_local and info.platform == principal.platform)


def _flat(text: str) -> str:
    """Return the words of a text in lower case, however often it was encoded as JSON."""
    text = _CODE.sub(lambda code: chr(int(code[1], 16)), text) if "\\" in text else text
    return " ".join(_ESCAPE.sub("", _BREAK.sub(" ", text)).casefold().split())


def files_with(folder: MemoryFolder, notes: Sequence[MemoryNote]) -> Sequence[Path]:
    """Return the files that contain one of the notes.

    They are exports of sessions or memory, and files that an editor or a killed process left beside the documents.
    """
    documents = {file.path for file in folder.every_file()}
    left = [path for path in sorted(folder.path.rglob("*")) if path not in documents and not path.is_symlink()]
    return [path for path in (*exports(), *left) if _holds(path, notes)]


def _holds(path: Path, notes: Sequence[MemoryNote]) -> bool:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return False
        text = " ".join(path.read_text("utf-8", errors="replace").split())
    except OSError:
        return False
    return any(form in text for note in notes for form in _forms(" ".join(note.text.split())))


def _forms(text: str) -> Iterator[str]:
    """Yield the text in the forms that documents use: plain, as JSON once or twice, and each of these as HTML."""
    for _ in range(3):
        yield from (text, html.escape(text), html.escape(text, quote=False))
        text = json.dumps(text, ensure_ascii=False)[1:-1]
