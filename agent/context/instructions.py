"""A project's own instructions: AGENTS.md, or else CLAUDE.md, of each folder from the project's root to the working folder.

They come from the repository's authors and need no approval: they are text for the model, marked as such
(agent/context/prompt.py), and loosen no rule. No instruction file outside the project is read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.passing import raise_passing
from toolcrib.contract.regex import Regex
from toolcrib.contract.types import Json
from tools.environments.own_files import NONE, OwnFiles

NAMES = ("AGENTS.md", "CLAUDE.md")
"""Names of an instruction file. The first that exists in a folder is read."""
FILE_BYTES = 32 * 1024
ALL_BYTES = 64 * 1024
"""Maximum bytes of all files together. If they have more, the files nearest to the working folder are kept."""
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_HEAD = Regex(r"(?:ref: refs/heads/(?P<branch>[\w./+@#=-]{1,200})|(?P<commit>[0-9a-f]{40,64}))\n?")
_UNSEEN = dict.fromkeys([*(code for code in range(32) if code not in b"\t\n"), 127, *range(0xE0000, 0xE0080)])
"""Control characters and Unicode tag characters, which are invisible to a reader of the file."""


@dataclass(frozen=True, slots=True)
class InstructionFile:
    """A file of instructions. ``path`` is relative to the root, ``size`` is the number of bytes that the model reads.

    ``fault`` is the reason why its text is cut or missing, "" if it is complete.
    """

    path: str
    text: str
    size: int = 0
    fault: str = ""

    def to_json(self) -> dict[str, Json]:
        """Return the file without its text, as JSON."""
        return {"path": self.path, "size": self.size, "fault": self.fault}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> InstructionFile:
        """Return the file that ``to_json`` wrote, without its text. Raises KeyError if a field is missing."""
        return cls(str(data["path"]), "", int(data["size"]), str(data["fault"]))


def project_root(folder: Path, project_dir: Path) -> Path:
    """Return the root of the project that ``folder`` is in: the nearest folder with ``.git``, from ``project_dir`` upwards.

    Without ``.git`` the root is ``project_dir``. For a folder outside ``project_dir`` the search starts at the folder itself.
    Both paths must be resolved. A folder above the start counts only if it has the same owner as the start, so that no other user
    can place a ``.git`` there.
    """
    lowest = project_dir if folder == project_dir or project_dir in folder.parents else folder
    for above in (lowest, *lowest.parents):
        if os.path.lexists(f"{above}/.git"):  # a string, because Path objects would take ten times as long
            return above if above == lowest or _same_owner(above, lowest) else lowest
    return lowest


def _same_owner(one: Path, other: Path) -> bool:
    try:
        return one.stat().st_uid == other.stat().st_uid
    except OSError:
        return False


def read_instructions(
    folder: Path, project_dir: Path, *, redact: Callable[[str], str] = str, own: OwnFiles = NONE
) -> Sequence[InstructionFile]:
    """Return the instruction files for ``folder``, the root's first. Empty files are left out.

    ``redact`` removes secrets from a text. Hard links to ``own`` files are not read. A file that can't be read has a
    ``fault``. Raises OSError only if the root can't be opened for a temporary reason, such as too many open files.
    """
    root = project_root(folder, project_dir)
    steps = folder.relative_to(root).parts if folder != root else ()
    found: list[InstructionFile] = []
    left = ALL_BYTES
    try:
        handle = os.open(root, _FLAGS | os.O_DIRECTORY)
    except OSError as error:
        raise_passing(error)
        return ()
    try:
        for depth in range(len(steps), -1, -1):  # the nearest first, since it takes precedence if space is short
            one = _of_folder(handle, root, steps[:depth], min(FILE_BYTES, left), own)
            if one is not None:
                left -= len(one.text.encode())
                found.insert(0, InstructionFile(one.path, redact(one.text), one.size, one.fault))
    finally:
        os.close(handle)
    return found


def describe_files(files: Sequence[InstructionFile]) -> str:
    """Return a line for users: the files, and which of them are incomplete. "" for none."""
    if not files:
        return ""
    named = [f"{file.path} ({file.fault})" if file.fault else file.path for file in files]
    return f"{len(files)} instruction file{'' if len(files) == 1 else 's'}: {', '.join(named)}"


def _of_folder(root_handle: int, root: Path, steps: Sequence[str], most: int, own: OwnFiles) -> InstructionFile | None:
    for name in NAMES:
        path = str(PurePosixPath(*steps, name))
        try:
            handle = _opened(root_handle, root, (*steps, name))
        except FileNotFoundError:
            continue
        except OSError as error:
            return InstructionFile(path, "", 0, f"not read: {error.strerror or error}")
        try:
            if own.leads_to(f"{root}/{path}", os.fstat(handle)) != f"{root}/{path}":
                return InstructionFile(path, "", 0, "not read: a hard link to one of toolcrib's own files")
            return _read(handle, path, most)
        finally:
            os.close(handle)
    return None


def _opened(root_handle: int, root: Path, parts: Sequence[str]) -> int:
    """Open a file of the project. A link may only lead to a Markdown file of the project. Raises OSError."""
    try:
        return _open_inside(root_handle, parts)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    led = Path(os.path.realpath(root.joinpath(*parts)))
    if root not in led.parents:
        raise OSError("a link that leads out of the project")
    if led.suffix.lower() != ".md":
        raise OSError("a link to another kind of file")
    try:
        return _open_inside(root_handle, led.relative_to(root).parts)
    except FileNotFoundError:
        raise OSError("a dangling link") from None


def _open_inside(root_handle: int, parts: Sequence[str]) -> int:
    """Open a file below a folder without following links. Raises OSError."""
    handle = os.dup(root_handle)
    try:
        for place, part in enumerate(parts):
            is_last = place == len(parts) - 1
            below = os.open(part, _FLAGS if is_last else _FLAGS | os.O_DIRECTORY, dir_fd=handle)
            os.close(handle)
            handle = below
    except BaseException:
        os.close(handle)
        raise
    return handle


def _read(handle: int, path: str, most: int) -> InstructionFile | None:
    from tools.files.text import decode

    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode):
        return InstructionFile(path, "", 0, "not read: not a regular file")
    try:
        data = _bytes(handle, most + 1)
    except OSError as error:
        return InstructionFile(path, "", 0, f"not read: {error.strerror or error}")
    cut = len(data) > most
    text = decode(data[:most], cut=cut)
    if text is None:
        return InstructionFile(path, "", 0, "not read: not a text file")
    lines = text.text.replace("\r\n", "\n")
    if cut and "\n" in lines:
        lines = lines[: lines.rindex("\n") + 1]
    fault = f"the first {len(lines.encode()) / 1024:.0f} of {about.st_size / 1024:.0f} KiB" if cut else ""
    whole = lines.translate(_UNSEEN).strip("\n")
    return InstructionFile(path, whole, len(whole.encode()), fault) if whole.strip() or cut else None


def _bytes(handle: int, most: int) -> bytes:
    data = b""
    while len(data) < most:
        piece = os.read(handle, most - len(data))
        if not piece:
            break
        data += piece
    return data


def git_branch(folder: Path) -> str:
    """Return the branch of the repository around ``folder``; "none, at commit ..." for a detached HEAD.

    Returns "" if there is no repository or its HEAD can't be read. Runs no program.
    """
    for above in (folder, *folder.parents):
        if not os.path.lexists(f"{above}/.git"):
            continue
        found = _HEAD.fullmatch(_head(above / ".git"))
        return "" if found is None else found["branch"] or f"none, at commit {found['commit'][:12]}"
    return ""


def _head(entry: Path) -> str:
    """Return the text of a repository's HEAD; ``entry`` is its ``.git`` folder, or a worktree's file that names the folder."""
    try:
        if not entry.is_dir():
            _, _, named = _start(entry).strip().partition("gitdir: ")
            entry = entry.parent / named
        return _start(entry / "HEAD")
    except (OSError, ValueError):
        return ""


def _start(file: Path) -> str:
    handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(handle, 4096).decode("utf-8", "replace")
    finally:
        os.close(handle)
