"""Resolve a requested path, with its links, once per call: the gates judge the resolved path, and the tool opens that one."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from toolcrib.contract.artifacts import PREFIX
from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.effects import DeletesFile, ReadsFile, WritesFile
from toolcrib.contract.environment import FileInfo
from toolcrib.contract.errors import ExecutionFailed, Internal, InvalidArguments, NotFound, StoreFailed
from toolcrib.contract.passing import is_passing
from toolcrib.contract.paths import real_path
from toolcrib.contract.suggest import near
from tools.artifacts import name_of

E = TypeVar("E", ReadsFile, WritesFile, DeletesFile)


class Files(Protocol):
    """The methods of an Environment that tools need to read files."""

    async def stat(self, path: str) -> FileInfo | None: ...
    async def read_file(self, path: str, *, limit: int | None = None) -> bytes: ...
    async def list_dir(self, path: str) -> Sequence[FileInfo]: ...
    async def resolve(self, path: str) -> str: ...


class HostFiles:
    """Files on this machine, for spilled results, which are always here and never in the environment.

    A spilled result has only one name, so a file with several hard links is refused, as a device is.
    """

    async def stat(self, path: str) -> FileInfo | None:
        try:
            found = Path(path).lstat()  # noqa: ASYNC240 - one local call, shorter than a thread switch
        except FileNotFoundError:
            return None
        kind = _kind(found.st_mode)
        kind = "other" if kind == "file" and found.st_nlink > 1 else kind
        return FileInfo(path, kind, found.st_size, found.st_mtime, stat.S_IMODE(found.st_mode))

    async def read_file(self, path: str, *, limit: int | None = None) -> bytes:
        with Path(path).open("rb") as file:  # noqa: ASYNC230 - a local file of bounded size
            if os.fstat(file.fileno()).st_nlink > 1:
                raise OSError(errno.ELOOP, "it is a hard link of a file elsewhere")
            return file.read(-1 if limit is None else limit)

    async def list_dir(self, path: str) -> Sequence[FileInfo]:
        found = [await self.stat(str(entry)) for entry in sorted(Path(path).iterdir())]  # noqa: ASYNC240 - as above
        return [info for info in found if info is not None]

    async def resolve(self, path: str) -> str:
        return str(real_path(path))


def _kind(mode: int) -> Literal["file", "dir", "link", "other"]:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "dir"
    return "link" if stat.S_ISLNK(mode) else "other"


def is_spilled(ctx: ToolCallContext, path: str) -> bool:
    """Return whether ``path``, with links followed, is in the spill folder of this machine.

    Links are followed only in a path that is in the folder by its name: any other path belongs to the environment, which may be
    on another machine.
    """
    folder = real_path(ctx.spill_dir)
    named = Path(os.path.normpath(path))
    return any(named.is_relative_to(one) for one in (ctx.spill_dir, folder)) and real_path(path).is_relative_to(folder)


async def located(ctx: ToolCallContext, path: str) -> str:
    """Return ``path``, or, if it is an artifact's name, the path of a local file with the artifact's content.

    Raises NotFound for an unknown artifact, ExecutionFailed if it can't be read.
    """
    try:
        return str(await ctx.artifact(path)) if path.startswith(PREFIX) else path
    except (StoreFailed, OSError) as error:
        raise ExecutionFailed(f"{path} can't be read: {error}") from error


def shown(ctx: ToolCallContext, path: str) -> str:
    """Return the path as the model sees it. For a spilled result this is its artifact's name, which outlives the file."""
    return name_of(path) if is_spilled(ctx, path) else path


def files_of(ctx: ToolCallContext, path: str) -> Files:
    return HostFiles() if is_spilled(ctx, path) else ctx.environment


async def resolve(files: Files, path: str) -> str:
    """Return the file that ``path`` leads to now. Raises InvalidArguments for an invalid path."""
    if not path or "\0" in path:
        raise InvalidArguments("path: give the name of a file or folder, without NUL characters")
    try:
        return await files.resolve(path)
    except OSError as error:
        if is_passing(error):
            raise ExecutionFailed(f"{path} can't be followed now: {error.strerror or error}; retry later") from error
        raise InvalidArguments(f"path: {path} can't be followed: {error.strerror or error}") from error


def judged(ctx: ToolCallContext, kind: type[E]) -> E:
    """Return the one effect that the gates judged. Raises Internal if the call was not prepared."""
    if len(ctx.effects) == 1 and isinstance(ctx.effects[0], kind):
        return ctx.effects[0]
    raise Internal(f"{ctx.tool_name} was called without the effects that gates judge; call it through the dispatcher")


async def unmoved(files: Files, path: str) -> None:
    """Raise ExecutionFailed if a link is now in a path that was free of links when it was judged."""
    if await files.resolve(path) != path:
        raise ExecutionFailed(f"{path} was replaced by a link after the call was checked; nothing was done, call again")


@contextmanager
def translate_file_errors(path: str) -> Iterator[None]:
    """Turn errors of file access into results for the model."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"{path} does not exist") from error
    except IsADirectoryError as error:
        raise InvalidArguments(f"path: {path} is a folder; name a file in it") from error
    except NotADirectoryError as error:
        raise InvalidArguments(f"path: a part of {path} is a file, not a folder") from error
    except PermissionError as error:
        raise ExecutionFailed(f"no permission for {path}") from error
    except OSError as error:
        raise ExecutionFailed(f"{path}: {error.strerror or error}") from error


async def missing(files: Files, path: str) -> NotFound:
    """Return the error for a missing path, with similar names in its folder, or with its nearest existing folder."""
    folder, name = posixpath.split(path)
    info = await files.stat(folder)
    if info is None:
        while folder not in ("", "/") and await files.stat(folder) is None:
            folder = posixpath.dirname(folder)
        return NotFound(f"{path} does not exist; its nearest existing folder is {folder or '/'}")
    try:
        names = [posixpath.basename(entry.path) for entry in await files.list_dir(folder)]
    except OSError as error:
        return NotFound(f"{path} does not exist; {folder} can't be listed: {error.strerror or error}")
    by_folded = {entry.casefold(): entry for entry in names}
    close = [by_folded[match] for match in near(name.casefold(), by_folded, most=3, cutoff=0.5)]
    if close:
        return NotFound(f"{path} does not exist; did you mean {', '.join(posixpath.join(folder, match) for match in close)}?")
    return NotFound(f"{path} does not exist; {folder} holds {len(names)} entries, none with a similar name")
