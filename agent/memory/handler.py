"""The handler of the tool ``memory``: a session's model uses it to note facts about the user and the project."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ExecutionFailed, InvalidArguments, ToolcribError, ToolError
from toolcrib.contract.types import ToolResult, ToolStatus

if TYPE_CHECKING:
    from agent.memory.document import MemoryDocument, MemoryNote

_LISTED = 40
"""Maximum number of notes that an error lists."""
_SESSION_CHARS = 12
_NAMES = {"memory": "the agent's notes", "user": "the notes about you", "project": "the notes about this project"}


@dataclass(slots=True)
class MemoryKeeper:
    """Keeps notes. ``folder`` is the session's folder, ``project_dir`` its workspace.

    ``redact`` removes known secrets from a text; ``max_chars`` is the limit of one document.
    """

    session_id: str
    folder: str | None
    project_dir: Path
    max_chars: int
    redact: Callable[[str], str] = str

    def handle(self, args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
        """Add, replace or remove a note. ``data``: {target, done, notes: N, used, limit}; ``used`` and ``limit`` are characters.

        Raises InvalidArguments, which lists the notes that the model may mean, and ExecutionFailed if nothing can be stored.
        """
        from agent.memory.files import MemoryFolder, project_of, remembers

        principal = ctx.run_identity.principal
        if not remembers(principal):
            raise ExecutionFailed("no notes are kept about a user without an id")
        project = None if self.folder is None else project_of(Path(self.folder), self.project_dir)
        where = MemoryFolder(principal, project)
        gone: list[str] = []
        work, done = self._work(args, gone)
        try:
            file = where.file(args["target"])
            after = where.change(file, lambda document: work(document, file.title))
        except ToolError:
            raise
        except ToolcribError as error:
            raise ExecutionFailed(str(error)) from error
        data = {"target": args["target"], "done": done, "notes": len(after.notes), "used": after.size, "limit": self.max_chars}
        person = f"{_said(args, done, gone)} ({after.size:,} of {self.max_chars:,} characters)"
        return ToolResult(ctx.tool_name, ToolStatus.SUCCESS, data, views={"person": person})

    def _work(self, args: dict[str, Any], gone: list[str]) -> tuple[Callable[[MemoryDocument, str], MemoryDocument], str]:
        """Return the function that changes the document, and the word for the change: added, replaced or removed.

        The function stores the text of a removed or replaced note in ``gone``.
        """
        from agent.memory.document import note_of

        action, old = args["action"], args.get("old_text", "").strip()
        if action != "add" and not old:
            raise InvalidArguments(f"old_text: give a part of the note to {action} that no other note has")
        if action == "remove":
            return lambda document, _: document.replacing(_found(document, old, gone), None), "removed"
        note = note_of(args.get("content", ""), self.session_id[:_SESSION_CHARS])
        if not note.text:
            raise InvalidArguments("content: empty; give the text of the note")
        self._screen(note.text)
        if action == "add":
            return lambda document, title: self._added(document, note, title), "added"
        return lambda document, _: self._fitting(document.replacing(_found(document, old, gone), note), document), "replaced"

    def _screen(self, text: str) -> None:
        from agent.memory.screening import why_not

        if why := why_not(text, self.redact):
            raise InvalidArguments(f"content: rejected: {why}")

    def _added(self, document: MemoryDocument, note: MemoryNote, title: str) -> MemoryDocument:
        if any(known.text == note.text for known in document.notes):
            return document
        return self._fitting(document.with_note(note, title), document)

    def _fitting(self, after: MemoryDocument, before: MemoryDocument) -> MemoryDocument:
        from agent.memory.document import most_notes

        most = most_notes(self.max_chars)
        if len(after.notes) > most and len(after.notes) > len(before.notes):
            raise InvalidArguments(
                f"content: the document has {len(before.notes):,} notes, and {most:,} is the limit: remove or merge notes"
                f" first. It has:\n{_list(before.notes)}"
            )
        if after.size > self.max_chars and after.size > before.size:
            raise InvalidArguments(
                f"content: the document would have {after.size:,} characters, and the limit is {self.max_chars:,}: remove or"
                f" shorten notes first, or merge several. It has:\n{_list(before.notes)}"
            )
        return after


def _found(document: MemoryDocument, text: str, gone: list[str]) -> MemoryNote:
    found = document.holding(text)
    if len(found) == 1:
        gone[:] = [found[0].text]
        return found[0]
    if found:
        raise InvalidArguments(f"old_text: it is in {len(found)} notes; give a longer part of one:\n{_list(found)}")
    if not document.notes:
        raise InvalidArguments("old_text: this document has no notes")
    raise InvalidArguments(f"old_text: it is in no note. The notes:\n{_list(document.notes)}")


def _list(notes: Sequence[MemoryNote]) -> str:
    more = [f"and {len(notes) - _LISTED} more"] if len(notes) > _LISTED else []
    return "\n".join([*(f"- {note.short}" for note in notes[:_LISTED]), *more])


def _said(args: dict[str, Any], done: str, gone: Sequence[str]) -> str:
    """Return a line for the user: the action, the note and the document."""
    new = " ".join((args.get("content") or "").split()) if done != "removed" else ""
    notes = " → ".join(filter(None, [*(" ".join(text.split()) for text in gone), new]))
    return f"{done} {'from' if done == 'removed' else 'to' if done == 'added' else 'in'} {_NAMES[args['target']]}: {notes}"
