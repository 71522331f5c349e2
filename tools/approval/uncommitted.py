"""Uncommitted work: find the contents of a git working tree that no commit has, without trusting the repository.

A repository's settings can name programs that git runs: filters and their processes, fsmonitor, hooks, a transport for missing
objects, an ssh command. So the script asks the repository's own git folder only for names: its top, its index, its objects and
its last commit. (``git rev-parse`` opens no file of the tree. It opens at most the commits that lead to a commit named in a
command.) The comparison runs in an empty git folder with toolcrib's own settings, over that index and those objects. A filter
in ``.gitattributes`` is then undefined, and there are no hooks, no remote, and no allowed transport. The settings of the system
and the account, and variables of the session's shell, are not used either.

Every failure and uncertainty counts as uncommitted work: no git, no repository, submodules (with settings of their own), files
marked assume-unchanged or skip-worktree, an answer that is too long or too late.
"""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from collections.abc import Mapping

from toolcrib.contract.effects import ShellState
from toolcrib.contract.environment import Environment, ExecRequest
from toolcrib.contract.errors import ToolcribError
from tools.judge.file_view import UNSEEN, WorkTree

MOST_BYTES = 200_000
SECONDS = 10.0
"""Limits of the script's output, in bytes, and of its duration. A tree that exceeds one counts as uncommitted work."""

_ENV = "/usr/bin/env"
_BEGIN, _END = b"work tree\0", b"\0end\n"
_VARIABLES: Mapping[str, str] = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin:/run/current-system/sw/bin",
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
}

_SCRIPT = r"""
umask 077
cd -- "$1" || exit 1
ask() { git -c safe.directory='*' rev-parse "$@"; }
top=$(ask --show-toplevel) && [ -n "$top" ] || exit 1
index=$(ask --git-path index) && objects=$(ask --git-path objects) && exclude=$(ask --git-path info/exclude) || exit 1
head=$(ask --verify --quiet HEAD) || exit 1
here=$(pwd -P) || exit 1
other=
[ -z "$2" ] || other=$(ask --verify --quiet --end-of-options "$2") || exit 1
case $index in /*) ;; *) index=$here/$index ;; esac
case $objects in /*) ;; *) objects=$here/$objects ;; esac
own=$(mktemp -d) || exit 1
trap 'rm -rf -- "$own"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$own/refs" "$own/info" || exit 1
[ ! -f "$exclude" ] || cat -- "$exclude" >"$own/info/exclude" || exit 1
printf '%s\n' "$head" >"$own/HEAD"
printf '[core]\nrepositoryformatversion = 0\nbare = false\nhooksPath = /dev/null\nfsmonitor = false\nuntrackedCache = false\n' \
  >"$own/config"
GIT_DIR=$own GIT_WORK_TREE=$top GIT_INDEX_FILE=$index GIT_OBJECT_DIRECTORY=$objects
export GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY
cd -- "$top" || exit 1
git ls-files -v >"$own/marks" && git ls-files -s >"$own/kinds" || exit 1
! grep -qv '^[HM] ' "$own/marks" && ! grep -q '^160000 ' "$own/kinds" || exit 1
git status --porcelain -z --no-renames --ignored --untracked-files=normal --ignore-submodules=all >"$own/status" || exit 1
[ "$(wc -c <"$own/status")" -lt 100000 ] || exit 1
hand=
git ls-files --resolve-undo >"$own/undo" || exit 1
tr '\0' '\n' <"$own/status" | sed -n -e 's/^UU //p' -e 's/^AA //p' >"$own/both"
while IFS= read -r file; do { [ -f "$file" ] && grep -q '^<<<<<<< ' <"$file"; } || hand=1; done <"$own/both"
if [ -n "$other" ]; then
  GIT_INDEX_FILE=$own/index git read-tree "$other" || exit 1
  GIT_INDEX_FILE=$own/index git ls-files -z --cached --ignored --exclude-standard >"$own/kinds" || exit 1
  tr '\0' '\n' <"$own/kinds" >"$own/both"
  while IFS= read -r file; do
    [ ! -e "$file" ] && [ ! -L "$file" ] || [ -n "$(GIT_LITERAL_PATHSPECS=1 git ls-files -- "$file")" ] \
      || printf 'over %s/%s\0' "$top" "$file"
  done <"$own/both" >"$own/over"
fi
printf 'work tree\0'
[ -z "$hand" ] && [ ! -s "$own/undo" ] || printf 'hand\0'
[ -z "$other" ] || { printf 'other\0'; cat "$own/over"; }
cat "$own/status"; printf '\0end\n'
"""


async def ask_git(environment: Environment, folder: str, commit: str = "") -> bytes:
    """Return the framed output of ``git status`` for the tree around ``folder``; b"" if it is unavailable. Never raises.

    ``commit``: the name of a commit whose files are compared with the existing ignored files.
    """
    try:
        state = await environment.shell_state()
        if state is not None and _may_pose(state):
            return b""
        request = ExecRequest(_line(folder, commit), cwd="/", keep=MOST_BYTES, timeout=SECONDS)
        if state is None:  # each command gets its own shell
            outcome = await environment.execute(request)
            return outcome.stdout.head if outcome.exit_code == 0 and outcome.ended == "exited" else b""
        async with asyncio.timeout(SECONDS):
            return await _beside(environment, request)
    except (OSError, ValueError, ToolcribError, TimeoutError):
        return b""


async def _beside(environment: Environment, request: ExecRequest) -> bytes:
    """Run the request in the background, which leaves the session's shell unchanged. Return its output, b"" if it fails or its
    output is too long.
    """
    process = await environment.spawn(request)
    told = b""
    ended = False
    try:
        process.close_stdin()
        while len(told) < MOST_BYTES:
            chunk = await process.read()
            if chunk is None:
                ended = True
                return told if await process.wait() == 0 else b""
            told += chunk[1] if chunk[0] == "stdout" else b""
        return b""
    finally:
        if not ended:
            await process.kill()


def ask_git_here(folder: str, commit: str = "") -> bytes:
    """Do the same as ``ask_git`` on this machine."""
    try:
        done = subprocess.run(
            [_ENV, "-i", *_assignments(), "/bin/sh", "-c", _SCRIPT, "sh", folder, commit],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
            cwd="/",
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return b""
    return done.stdout if done.returncode == 0 else b""


def read_status(told: bytes) -> WorkTree:
    """Parse the output. A tree only counts as clean if the output is complete and reports that."""
    whole = told.startswith(_BEGIN) and told.endswith(_END) and len(_BEGIN) + len(_END) <= len(told) < MOST_BYTES
    if not whole:
        return UNSEEN
    entries = [entry for entry in told[len(_BEGIN) : -len(_END)].split(b"\0") if entry]
    over = tuple(entry[5:].decode(errors="replace") for entry in entries if entry.startswith(b"over "))
    compared = b"other" in entries
    kinds = {entry[:3] for entry in entries if entry not in (b"hand", b"other") and not entry.startswith(b"over ")}
    edited = any(kind[1] in b"MDT" and kind[:1] != b"U" for kind in kinds)
    return WorkTree(
        changed=not kinds <= {b"?? ", b"!! "},
        untracked=b"?? " in kinds,
        ignored=b"!! " in kinds,
        resolved=edited or b"hand" in entries,
        overwritten=over if compared else None,
    )


def _line(folder: str, commit: str) -> str:
    words = [_ENV, "-i", *_assignments(), "/bin/sh", "-c", _SCRIPT, "sh", folder, commit]
    return " ".join(map(shlex.quote, words))


def _assignments() -> list[str]:
    return [f"{name}={value}" for name, value in _VARIABLES.items()]


def _may_pose(state: ShellState) -> bool:
    """Return whether the session's shell could forge the output: by a function, a trap, or a preloaded library."""
    return (
        any("/" in name for name in state.functions)
        or any(state.traps.values())  # an ignored signal has no command
        or any(name.startswith(("LD_", "DYLD_")) for name in state.variables)
    )
