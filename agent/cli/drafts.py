"""Drafts: typed but unsent text, stored in a file of its session so that it survives the end of the process."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import Collection
from pathlib import Path

BETWEEN = 1.0
"""Seconds between two checks of the draft; it is written at most that often, and only after a change."""
_STALE = 30 * 86_400
"""Seconds after which an abandoned draft is removed."""
_LARGEST = 1 << 20


class KeptDraft:
    """The draft of one session at a time. ``folder`` holds a private file for each session; None stores nothing.

    ``here`` is the chat's folder. It helps to find the draft of a session that never began.
    """

    def __init__(self, folder: Path | None, here: str = "") -> None:
        self._folder = folder
        self._marks = f"in{hashlib.sha256(os.fsencode(here)).hexdigest()[:32]}p" if here else ""
        """Prefix of the files that map the chat's folder and a process to the session with a draft; the process id follows."""
        self._session = ""
        self._text = ""

    def read(self, session_id: str) -> str:
        """Return the draft of this session, or "", and remove drafts that were abandoned long ago."""
        file = self._file(session_id)
        if file is None:
            return ""
        if self._session not in ("", session_id):  # the text typed so far now belongs to this session
            self.keep_now(self._session, "")
        forget_before(file.parent, time.time() - _STALE)
        text = _text_of(file)
        self._session, self._text = session_id, text
        return text

    def left_here(self) -> str:
        """Return the session with the latest draft in this folder, "" if there is none. Ignore drafts of running processes.

        Each session is returned only once.
        """
        found: list[tuple[float, str, Path]] = []
        for mark in self._folder.glob(f"{self._marks}*") if self._folder is not None and self._marks else ():
            pid, session = mark.name.removeprefix(self._marks), _text_of(mark)
            if (file := self._file(session)) is not None and pid.isdecimal() and not _is_alive(int(pid)):
                found.append((file.lstat().st_mtime if file.exists() else 0.0, session, mark))
        if not found:
            return ""
        changed_at, session, mark = max(found)
        with contextlib.suppress(OSError):
            mark.unlink(missing_ok=True)
        return session if changed_at else ""

    def adopt(self, left: str, session_id: str) -> None:
        """Give the session ``session_id`` the draft of ``left``, a session without a run."""
        old, new = self._file(left), self._file(session_id)
        if old is not None and new is not None:
            with contextlib.suppress(OSError):
                old.replace(new)
                _replace(new.with_name(f"{self._marks}{os.getpid()}"), session_id)

    async def keep(self, session_id: str, text: str) -> None:
        """Write the text if it has changed; an empty text removes the file."""
        if (session_id, text) != (self._session, self._text):
            await asyncio.get_running_loop().run_in_executor(None, self.keep_now, session_id, text)

    def keep_now(self, session_id: str, text: str) -> None:
        """Write the text at once, see ``keep``. If writing fails, for example on a full disk, the draft is not stored."""
        before, self._session, self._text = self._session, session_id, text
        with contextlib.suppress(OSError):
            if before not in ("", session_id) and (old := self._file(before)) is not None:
                old.unlink(missing_ok=True)
            if (file := self._file(session_id)) is not None:
                _replace(file, text)
            if self._folder is not None and self._marks:
                _replace(self._folder / f"{self._marks}{os.getpid()}", session_id if text.strip() else "")

    def _file(self, session_id: str) -> Path | None:
        return None if self._folder is None or not session_id.isalnum() else self._folder / session_id


def _text_of(file: Path) -> str:
    """Return a file's text, or "" if it is unreadable or a link."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as opened:
        return opened.read(_LARGEST).decode("utf-8", "replace")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def forget_before(folder: Path, then: float) -> None:
    """Remove the drafts that were last changed before ``then``, in Unix seconds."""
    with contextlib.suppress(OSError):
        for file in folder.iterdir():
            if file.lstat().st_mtime < then:
                file.unlink()


def forget_of(folder: Path, session_ids: Collection[str]) -> None:
    """Remove the drafts of these sessions."""
    with contextlib.suppress(OSError):
        for file in folder.iterdir():
            if file.name in session_ids or (file.name.startswith("in") and _text_of(file) in session_ids):
                file.unlink(missing_ok=True)


def _replace(file: Path, text: str) -> None:
    if not text.strip():
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(new, flags, 0o600), "wb") as opened:  # noqa: PTH123 - a descriptor
        opened.write(text.encode("utf-8", "replace")[:_LARGEST])
    new.replace(file)
