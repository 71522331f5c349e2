"""Memory documents on the disk: a folder for each user, in the state folder, with Markdown files that the user may edit.

No user id can produce the name of another principal's folder. Changes are made under a lock, and a file is replaced atomically. A
file that is not a valid document is reported and left unchanged.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal

from agent.config import locked, state_dir, write_private
from agent.memory.document import MemoryDocument
from toolcrib.contract.context import Principal
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.regex import Regex
from toolcrib.contract.types import Json

MemoryTarget = Literal["memory", "user", "project"]
ENDING = ".markdown"
_LARGEST = 256 * 1024
"""Largest document in bytes that is read."""
_WHOSE = "principal.json"
_PLAIN = Regex(r"[^A-Za-z0-9]+")
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class MemoryUnreadable(ToolcribError):
    """A memory document that can't be read: the user must check the file."""


def memory_root() -> Path:
    """Return the folder of all users' memory."""
    return state_dir() / "memory"


def remembers(principal: Principal) -> bool:
    """Return whether the principal has memory: a user without an id on another platform has none."""
    return bool(principal.user) or principal.is_local


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file with notes. A new file begins with ``title``."""

    target: str
    path: Path
    title: str

    def read(self) -> MemoryDocument:
        """Return the document, empty if there is no file. Raises MemoryUnreadable."""
        return MemoryDocument.parse(self.raw().decode("utf-8"))

    def raw(self) -> bytes:
        """Return the file's bytes, which are valid text; b"" if there is no file. Raises MemoryUnreadable."""
        try:
            handle = os.open(self.path, _FLAGS)
        except FileNotFoundError:
            return b""
        except OSError as error:
            why = "it is a link" if self.path.is_symlink() else f"it can't be read: {error.strerror or error}"
            raise self._unreadable(why) from error
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise self._unreadable("it is not a regular file")
            with open(handle, "rb", closefd=False) as opened:
                data = opened.read(_LARGEST + 1)
        except OSError as error:
            raise self._unreadable(f"it can't be read: {error.strerror or error}") from error
        finally:
            os.close(handle)
        if len(data) > _LARGEST:
            raise self._unreadable(f"it has more than {_LARGEST // 1024} KiB")
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._unreadable(f"it is not text in UTF-8: byte {error.start + 1} is invalid") from error
        if b"\0" in data:
            raise self._unreadable("it is not text: it has zero bytes")
        return data

    def _unreadable(self, why: str) -> MemoryUnreadable:
        return MemoryUnreadable(f"{self.path} is not used: {why}. Repair the file or move it away")


class MemoryFolder:
    """The documents of one principal. ``project`` is the root of the project whose document is included, or None."""

    def __init__(self, principal: Principal, project: Path | None = None, *, root: Path | None = None) -> None:
        self.principal = principal
        self.project = project
        self._root = memory_root() if root is None else root
        self.path = self._root / _folder_name(principal)

    def file(self, target: str) -> MemoryFile:
        """Return the document of a target. Raises ToolcribError for a project document without a project."""
        if target == "memory":
            return MemoryFile(target, self.path / f"MEMORY{ENDING}", "What the agent noted")
        if target == "user":
            return MemoryFile(target, self.path / f"USER{ENDING}", "What the agent noted about you")
        if self.project is None:
            raise ToolcribError("there is no project here that could have notes")
        return self._project_file(self.project)

    def files(self) -> Sequence[MemoryFile]:
        """Return the documents of this folder, whether or not their files exist."""
        return [self.file(target) for target in ("memory", "user", *(("project",) if self.project is not None else ()))]

    def every_file(self) -> Sequence[MemoryFile]:
        """Return the principal's existing documents, of all projects."""
        found = [file for file in (self.file("memory"), self.file("user")) if os.path.lexists(file.path)]
        with contextlib.suppress(OSError):
            found += [MemoryFile("project", path, "") for path in sorted((self.path / "projects").glob(f"*{ENDING}"))]
        return found

    def change(self, file: MemoryFile, work: Callable[[MemoryDocument], MemoryDocument]) -> MemoryDocument:
        """Read a document, store the result of ``work`` for it, and return that result. The principal's documents are locked
        meanwhile.

        Raises MemoryUnreadable, what ``work`` raises, and ToolcribError if the file can't be locked or written; after each of
        these errors the file is unchanged.
        """
        with self.held():
            before = file.read()
            after = work(before)
            if after is not before:
                self.write(file, after.text())
            return after

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Lock the principal's documents against other processes.

        Raises ToolcribError after 10 seconds, or if a folder can't be created.
        """
        for folder in (self._root, self.path, self.path / "projects"):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise ToolcribError(f"{folder} can't be created, so no notes are kept: {error.strerror or error}") from error
        with locked(self.path / "documents"):
            yield

    def write(self, file: MemoryFile, text: str) -> None:
        """Replace a document, while the principal's documents are locked.

        Raises ToolcribError, also if the document is too large to be read again.
        """
        if len(text.encode()) > _LARGEST:
            raise ToolcribError(f"{file.path} would exceed {_LARGEST // 1024} KiB, so nothing was written: shorten it first")
        whose = self.path / _WHOSE
        if not whose.exists():
            write_private(whose, json.dumps(self.principal.to_json()))
        write_private(file.path, text)

    def _project_file(self, root: Path) -> MemoryFile:
        slug = _PLAIN.sub("-", root.name)[:40].strip("-") or "root"
        name = f"{slug}-{_digest(str(root))}{ENDING}"
        shown = str(root) if str(root).isprintable() else json.dumps(str(root))
        return MemoryFile("project", self.path / "projects" / name, f"Project {shown}")


def everyone(root: Path | None = None) -> Sequence[Principal]:
    """Return the principals that have memory, the local user first."""
    found: list[Principal] = []
    with contextlib.suppress(OSError):
        for path in sorted((memory_root() if root is None else root).glob(f"*/{_WHOSE}")):
            with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
                data: dict[str, Json] = json.loads(path.read_text("utf-8"))
                principal = Principal.from_json(data)
                if path.parent.name == _folder_name(principal):
                    found.append(principal)
    return sorted(found, key=lambda one: one.key)


def project_of(folder: Path, project_dir: Path) -> Path:
    """Return the root of the project that a session in ``folder`` belongs to, resolved."""
    from agent.context.instructions import project_root

    return project_root(Path(os.path.realpath(folder)), Path(os.path.realpath(project_dir)))


def _folder_name(principal: Principal) -> str:
    return "local" if principal.is_local else f"of-{_digest(principal.key)}"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
