"""Read and change remote files by small sh scripts that only open the file that was judged.

The scripts enter folders without following links, and refuse a link in place of the file.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat as modes
import threading
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

from toolcrib.contract.environment import FileInfo
from toolcrib.contract.errors import EnvironmentFailed
from tools.environments.remote.aside import aside, why_lost
from tools.environments.remote.channel import Link
from tools.environments.remote.channel_pool import Keepers
from tools.environments.remote.once import run_once
from tools.environments.remote.shell_channel import ChannelLost, Halted, NeverBegan, ScriptResult
from tools.environments.shell.driver import quote

_SMALL = 1 << 15
"""Maximum bytes of a file that are sent within the script itself."""
_SECOND = 1_000_000_000
_UNKNOWN = "the operation may have run: it is unknown whether the file was reached, and it was not retried"
_NOTHING, _NOT_RUN = "nothing was changed", "the command was not run"
_CODES = {
    40: (errno.ENOENT, ""),
    41: (errno.ENOTDIR, ""),
    42: (errno.EISDIR, ""),
    43: (errno.ELOOP, "a symbolic link is in the way; resolve the path again"),
    44: (errno.EINVAL, "not a regular file (a device, FIFO or socket is not read or replaced)"),
    45: (errno.EACCES, ""),
}
_FAULTS = {
    "No space left": errno.ENOSPC,
    "Disk quota": errno.EDQUOT,
    "Read-only file": errno.EROFS,
    "Permission denied": errno.EACCES,
    "not permitted": errno.EPERM,
    "name too long": errno.ENAMETOOLONG,
    "too large": errno.EFBIG,
    "not empty": errno.ENOTEMPTY,
}
_RESOLVE = r"""
_left=$1 _found= _n=0 _bad=
while [ -n "$_left" ]; do
  _part=${_left%%/*}
  case $_left in */*) _left=${_left#*/} ;; *) _left= ;; esac
  case $_part in '' | .) continue ;; ..) _found=${_found%/*}; continue ;; esac
  if [ -L "$_found/$_part" ]; then
    _n=$((_n + 1)); [ $_n -le 40 ] || { _bad=1; break; }
    _to=$(readlink "$_found/$_part"; echo x); _to=${_to%??}
    case $_to in /*) _found= ;; esac
    _left=$_to/$_left
  else _found=$_found/$_part; fi
done
[ -z "$_bad" ] && printf '%s\n' "${_found:-/}"
"""
# $1 is a resolved folder. After this the script is in that folder, even if its path is replaced later.
_ENTER = r"""
export LC_ALL=C
cd -P -- "$1" 2>/dev/null || {
  p=$1; while [ "$p" != / ] && [ ! -e "$p" ] && [ ! -L "$p" ]; do p=${p%/*}; p=${p:-/}; done
  [ -L "$p" ] && exit 43; [ -d "$p" ] || exit 41; [ "$p" = "$1" ] && exit 45
  [ -n "$CREATE" ] || exit 40
  mkdir -p -- "$1" || exit 1
  cd -P -- "$1" || exit 1
}
here=$(pwd -P; echo x); [ "${here%??}" = "$1" ] || exit 43
"""
_PLAIN = r"""
[ -L "./$2" ] && exit 43; [ -d "./$2" ] && exit 42
"""
_READ = (
    _ENTER
    + _PLAIN
    + r"""
[ -e "./$2" ] || exit 40; [ -f "./$2" ] || exit 44; [ -r "./$2" ] || exit 45
exec 3<"./$2"
if [ -e /proc/self/fd/3 ]; then
  it=$(readlink /proc/self/fd/3; echo x); it=${it%??}
  case $it in "${1%/}/$2" | "${1%/}/$2 (deleted)") ;; *) exit 43 ;; esac
fi
if [ -n "$3" ]; then head -c "$3" <&3; else cat <&3; fi
"""
)
# A lost connection looks like the end of the input: the size shows whether all data has arrived. A file with other names (hard
# links) is written in place, through a descriptor that is verified to be of that file. The script prints a word
# of _LOST for each part of the metadata that was lost.
_WRITE = (
    "CREATE=1\n"
    + _ENTER
    + _PLAIN
    + r"""
old= links=1
if [ -e "./$2" ]; then
  [ -f "./$2" ] || exit 44; [ -w "./$2" ] || exit 45
  old=$(stat -c '%u:%g %a' -- "./$2") && links=$(stat -c %h -- "./$2") || exit 1
fi
trap 'rm -f -- "./$5" "./$5.old"' EXIT; trap 'exit 1' HUP INT PIPE TERM
( [ -z "$3$old" ] || umask 077; set -C; cat >"./$5" ) || exit 1
[ "$(($(wc -c <"./$5")))" -eq "$4" ] || { echo "the connection broke" >&2; exit 1; }
finish() {
  if [ -n "${3:-${old#* }}" ]; then chmod "${3:-${old#* }}" "$7" || exit 1; fi
  if [ -n "$6" ]; then touch -d "@$6" "$7" 2>/dev/null || touch -d "@${6%.*}" "$7" 2>/dev/null || echo time; fi
}
if [ "$links" -gt 1 ] && [ -r "./$2" ] && [ -e /proc/self/fd ]; then
  exec 3<>"./$2" || exit 1
  it=$(readlink /proc/self/fd/3; echo x); [ "${it%??}" = "${1%/}/$2" ] || exit 43
  ( umask 077; cat <&3 >"./$5.old" ) || exit 1
  cat "./$5" >/proc/self/fd/3 || { cat "./$5.old" >/proc/self/fd/3; exit 1; }
  finish "$1" "$2" "$3" "$4" "$5" "$6" /proc/self/fd/3
  exit
fi
if [ -n "$old" ]; then
  [ "$links" -gt 1 ] && echo links
  chown "${old% *}" "./$5" 2>/dev/null
  cp --attributes-only --preserve=mode,xattr -- "./$2" "./$5" 2>/dev/null || echo attributes
fi
finish "$1" "$2" "$3" "$4" "$5" "$6" "./$5"
[ -d "./$2" ] && exit 42
mv -f -- "./$5" "./$2" || exit 1
"""
)
_LOST = {
    "links": "its other names (hard links), which keep the old content,",
    "attributes": "extended attributes and an ACL, if it had any,",
    "time": "the time of its last change",
}
_DELETE = (
    _ENTER
    + _PLAIN
    + r"""
[ -e "./$2" ] || exit 40
rm -f -- "./$2" </dev/null || exit 1
"""
)
_DELETE_FOLDER = (
    _ENTER
    + r"""
[ -L "./$2" ] && exit 43; [ -e "./$2" ] || exit 40; [ -d "./$2" ] || exit 41
rmdir -- "./$2" </dev/null || exit 1
"""
)
_STAT = r"""
{ [ -e "$1" ] || [ -L "$1" ]; } || exit 40
LC_ALL=C stat -c '%f %s %Y %.9Y %u %g' -- "$1"
"""
_GIVE = (
    _ENTER
    + _PLAIN
    + r"""
[ -e "./$2" ] || exit 40; [ -f "./$2" ] || exit 44
mode=$(stat -c %a -- "./$2") && chown -h -- "$3" "./$2" && chmod "$mode" "./$2" || exit 1
"""
)
_LIST = (
    r"""
[ -e "$1" ] || [ -L "$1" ] || exit 40; [ -L "$1" ] && exit 43; [ -d "$1" ] || exit 41
"""
    + _ENTER
    + r"""
[ -r . ] || exit 45
if stat --printf=x / >/dev/null 2>&1; then
  find . -mindepth 1 -maxdepth 1 -print0 | xargs -0 stat --printf='%f %s %Y %.9Y %n\0' -- 2>/dev/null
else
  find . -mindepth 1 -maxdepth 1 -print0 | xargs -0 stat -c '%f %s %Y %Y %n' -- 2>/dev/null | tr '\n' '\0'
fi
:
"""
)


class RemoteFiles:
    """The file operations of a remote environment."""

    _cwd: str
    _env: Mapping[str, str]

    def __init__(self, link: Link, keepers: Keepers) -> None:
        self.__link = link
        self.__keepers = keepers
        self.__home: str | None = None

    async def resolve(self, path: str) -> str:
        _check(path)
        if path.startswith("~"):
            path = await self._home(path)
        whole = path if path.startswith("/") else f"{self._cwd}/{path}"
        answer = await self._script(_RESOLVE, [whole], apart=False)
        if answer.status:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return os.fsdecode(answer.out.removesuffix(b"\n"))

    async def home(self) -> str:
        """See KnowsHome. Return commands' HOME, else the account's home, which is looked up once. Raises EnvironmentFailed."""
        if self.__home is None:
            there = self._env.get("HOME") or await self._home_of("")
            self.__home = (there.rstrip("/") or "/") if there.startswith("/") else ""
        return self.__home

    async def _home(self, path: str) -> str:
        """Return a path with the home in place of its ``~``. If there is no such account, return it as a relative path."""
        user, _, rest = path[1:].partition("/")
        if user and not user.replace("-", "").replace("_", "").replace(".", "").isalnum():
            return f"./{path}"
        home = await (self._home_of(user) if user else self.home())
        return f"{home}/{rest}" if home.startswith("/") else f"./{path}"

    async def _home_of(self, user: str) -> str:
        answer = await self._script(f"printf '%s\\n' ~{user}", [])
        return os.fsdecode(answer.out.removesuffix(b"\n"))

    async def stat(self, path: str) -> FileInfo | None:
        _check(path)
        whole = path if path.startswith("/") else f"{self._cwd}/{path}"
        answer = await self._script(_STAT, [whole])
        return _info(path, answer.out.decode("ascii", "replace").split()) if answer.status == 0 else None

    async def read_file(self, path: str, *, limit: int | None = None) -> bytes:
        """Read a file. ``path`` is resolved, as for ``write_file``."""
        folder, name = _split(path)
        answer = await self._script(_READ, [folder, name, "" if limit is None else str(limit)])
        self._raise(answer, path)
        return answer.out

    async def write_file(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        await self.replace_file(path, data, mode=mode)

    async def replace_file(
        self, path: str, data: bytes, *, mode: int | None = None, mtime_ns: int | None = None
    ) -> Sequence[str]:
        """See ReplacesFiles."""
        folder, name = _split(path)
        temporary = f".{name[:60]}.{secrets.token_hex(6)}.tmp"
        when = "" if mtime_ns is None else f"{mtime_ns // _SECOND}.{mtime_ns % _SECOND:09}"
        args = [folder, name, "" if mode is None else f"{mode:o}", str(len(data)), temporary, when]
        if len(data) <= _SMALL and b"\0" not in data:
            answer = await self._script(_WRITE, args, data, known=_UNKNOWN)
        else:
            answer = await self._send(_WRITE, args, data, _UNKNOWN)
        self._raise(answer, path)
        return [_LOST[word] for word in answer.out.decode("ascii", "replace").split() if word in _LOST]

    async def upload(self, path: str, data: bytes) -> None:
        """Write a command's input to ``path``. Raises EnvironmentFailed."""
        answer = await self._send('umask 077; cat >"$1"', [path], data, _NOT_RUN)
        if answer.status:
            why = answer.err.decode(errors="replace").strip()
            raise EnvironmentFailed(f"the command's input can't be written to {path}, so it was not run: {why}")

    async def _send(self, text: str, args: Sequence[str], data: bytes, known: str) -> ScriptResult:
        """Run a script that has no effect after the call is cancelled, so that it can't overwrite what a later call writes.

        Raises EnvironmentFailed.
        """
        given_up = threading.Event()
        try:
            return await aside(run_once, self.__link, text, args, data, given_up.is_set)
        except ChannelLost as error:
            raise await self._files_broke(error, known) from error
        finally:
            given_up.set()

    async def is_folder(self, path: str) -> bool:
        """Return True if a command can enter the folder."""
        return (await self._script(f"cd -P -- {quote(path)}", [], known=_NOT_RUN)).status == 0

    async def nearest(self, path: str) -> str:
        """Return the nearest existing parent folder."""
        above = [quote(str(folder)) for folder in PurePosixPath(path).parents]
        tests = "".join(f"[ -d {each} ] && {{ printf %s {each}; exit; }}\n" for each in above)
        return os.fsdecode((await self._script(tests, [])).out) or "/"

    async def delete_file(self, path: str) -> None:
        """Delete a file. ``path`` is resolved, as for ``write_file``. Raises IsADirectoryError for a folder."""
        folder, name = _split(path)
        self._raise(await self._script(_DELETE, [folder, name], known=_UNKNOWN), path)

    async def give_file(self, path: str, uid: int, gid: int) -> None:
        """Change the owner of a regular file. ``path`` is resolved, as for ``write_file``."""
        folder, name = _split(path)
        self._raise(await self._script(_GIVE, [folder, name, f"{uid}:{gid}"], known=_UNKNOWN), path)

    async def delete_folder(self, path: str) -> None:
        """Delete an empty folder. ``path`` is resolved, as for ``write_file``."""
        folder, name = _split(path)
        self._raise(await self._script(_DELETE_FOLDER, [folder, name], known=_UNKNOWN), path)

    async def list_dir(self, path: str) -> Sequence[FileInfo]:
        """List a folder. ``path`` is resolved, as for ``write_file``."""
        _check(path)
        answer = await self._script(_LIST, [path])
        self._raise(answer, path)
        found = []
        for line in answer.out.split(b"\0"):
            words = os.fsdecode(line).split(" ", 4)
            info = _info(f"{path.rstrip('/')}/{words[4][2:]}", words[:4]) if len(words) == 5 else None
            if info is not None:
                found.append(info)
        return sorted(found, key=lambda each: each.path)

    async def _script(
        self, text: str, args: Sequence[str], data: bytes | None = None, *, apart: bool = True, known: str = _NOTHING
    ) -> ScriptResult:
        """Run a script. ``known``: what is certain about its effect if the connection is lost. Raises EnvironmentFailed."""
        whole = f"set -- {' '.join(quote(each) for each in args)}\n{text}"
        if apart:
            whole = f"(\n{whole}\n)"
        if data is not None:
            whole = f"printf %s {quote(data.decode('utf-8', 'surrogateescape'))} | {whole}"
        try:
            return await self.__keepers.beside(whole)
        except ChannelLost as error:
            raise await self._files_broke(error, known) from error

    async def _files_broke(self, error: ChannelLost, known: str) -> EnvironmentFailed:
        if isinstance(error, NeverBegan) and isinstance(error.__cause__, EnvironmentFailed):  # it has the cause
            return EnvironmentFailed(f"{error} ({known if known == _NOT_RUN else 'the file was not reached'})")
        why = "" if isinstance(error, Halted) else await why_lost(self.__link)  # Halted has the reason
        return EnvironmentFailed(f"{self.__link.where} was lost: {why or error}; {known}")

    def _raise(self, answer: ScriptResult, path: str) -> None:
        if answer.status == 0:
            return
        number, text = _CODES.get(answer.status, (0, ""))
        said = answer.err.decode("utf-8", "replace").strip()
        if not number:
            number = next((code for sign, code in _FAULTS.items() if sign in said), errno.EIO)
        if number == errno.EIO and said:
            text = said
        raise OSError(number, text or os.strerror(number), path)


def _check(path: str) -> None:
    if "\0" in path:
        raise OSError(errno.EINVAL, "a path cannot contain a NUL character", path.replace("\0", "\\0"))


def _split(path: str) -> tuple[str, str]:
    """Return the folder of a resolved path, and the name in it. Raises OSError."""
    _check(path)
    parts = path.split("/")
    if not path.startswith("/") or ".." in parts:
        raise OSError(errno.EINVAL, "not a resolved path: ask the environment to resolve it first", path)
    *folders, name = [part for part in parts if part not in ("", ".")] or ["."]
    return "/" + "/".join(folders), name


def _info(path: str, words: Sequence[str]) -> FileInfo | None:
    try:
        mode, size, whole = int(words[0], 16), int(words[1]), int(words[2])
    except (ValueError, IndexError):
        return None
    exact = words[3] if len(words) > 3 and words[3].startswith(f"{whole}.") else f"{whole}.0"
    mtime_ns = whole * _SECOND + int(f"{exact.partition('.')[2]:0<9}"[:9])
    kind: Literal["file", "dir", "link", "other"] = "other"
    for test, name in ((modes.S_ISREG, "file"), (modes.S_ISDIR, "dir"), (modes.S_ISLNK, "link")):
        if test(mode):
            kind = name  # type: ignore[assignment]  # one of these
    owner = (int(words[4]), int(words[5])) if len(words) == 6 and words[4].isdecimal() and words[5].isdecimal() else None
    return FileInfo(path, kind, size, float(exact), modes.S_IMODE(mode), owner, mtime_ns)
