"""Format memory for users: `toolcrib memory` and /memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from agent.cli.escape import one_line, tame

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation
    from agent.config import Config
    from agent.memory.files import MemoryFile
    from tools.redact import Redactor

NAMES = {"memory": "what the agent noted", "user": "about you", "project": "about this project"}


async def show_memory(chat: Conversation, rest: str) -> None:
    """Show the memory of the session's principal and of its project."""
    from agent.memory.files import MemoryFolder, project_of

    session, crib = chat.session, chat.opening.crib
    project = None if session.backend.is_remote else project_of(crib.project_dir, crib.project_dir)
    folder = MemoryFolder(session.identity.principal, project)
    chat.screen.text("\n".join(shown(folder.files(), session.config, session.scope.redactor)))


def shown(files: Sequence[MemoryFile], config: Config, redactor: Redactor) -> list[str]:
    """Return lines about each document: its notes with their origin, how full it is, and what models don't see."""
    lines = [line for file in files for line in _document(file, config.memory.max_chars, redactor)]
    if not lines:
        lines = ["no notes yet: the model adds them, and you can add your own with `toolcrib memory edit`"]
    if not config.remembers:
        lines.append("Memory is disabled: models neither receive nor add notes (memory.enabled, store.enabled)")
    return lines


def _document(file: MemoryFile, limit: int, redactor: Redactor) -> Iterator[str]:
    from agent.memory.files import MemoryUnreadable
    from agent.memory.telling import told_of

    try:
        document = file.read()
    except MemoryUnreadable as error:
        yield f"✗ {tame(str(error))}"
        return
    if not document.size:
        return
    name = NAMES[file.target] if file.title else f"about the project of {file.path.name}"
    yield f"{name} ({document.size:,} of {limit:,} characters): {tame(str(file.path))}"
    for part in document.parts:
        if part.note is not None:
            text = _visible("\n    ".join(redactor.text(part.note.text).split("\n")))
            source = ", ".join(filter(None, (part.note.date, part.note.session and f"session {part.note.session}")))
            yield f"  - {text}{f'  ({tame(source)})' if source else ''}"
        elif part.raw.strip() and not part.raw.startswith("# "):
            yield f"    {_visible(redactor.text(part.raw.strip()))}"
    for left in told_of(document, limit, redactor.text)[1]:
        yield f"  ✗ models do not receive '{one_line(_visible(redactor.text(left.text)), 60)}': {left.why}"


def _visible(text: str) -> str:
    """Return the text with invisible characters escaped: users may edit the file."""
    from agent.memory.unseen import revealed

    return tame(revealed(text))


def as_json(file: MemoryFile, config: Config, redact: Callable[[str], str] = str) -> dict[str, Any]:
    """Return a document as JSON, including notes hidden from models, and why. ``redact`` removes known secrets from the texts.

    Raises MemoryUnreadable.
    """
    from agent.memory.telling import told_of

    document, limit = file.read(), config.memory.max_chars
    notes = [{"text": redact(note.text), "date": note.date, "session": note.session} for note in document.notes]
    untold = [{"text": redact(left.text), "why": left.why} for left in told_of(document, limit, redact)[1]]
    about = {"target": file.target, "path": str(file.path), "characters": document.size, "limit": limit}
    return {**about, "notes": notes, "not_told": untold}


def written_json(data: object) -> str:
    """Return JSON that escapes only invisible characters, so that letters of all scripts stay readable."""
    from agent.memory.unseen import unseen_in

    text = json.dumps(data, ensure_ascii=False, indent=2)
    hidden = unseen_in(text)
    return "".join(json.dumps(char)[1:-1] if at in hidden else char for at, char in enumerate(text))
