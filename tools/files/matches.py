"""Run the search command, and parse its output. Only the pattern and the glob come from the model, as quoted arguments."""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.environment import ExecRequest
from toolcrib.contract.errors import ExecutionFailed, InvalidArguments
from toolcrib.contract.regex import Regex

SECONDS = 30.0
_STOPPED = {"timeout": "stopped at the time limit", "interrupted": "interrupted"}
KEEP = 4 * 1024 * 1024
"""Maximum bytes of a search's output that are read."""
COLUMNS = 600
"""Characters of a line that ripgrep prints."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/homebrew/bin"

# An empty environment and a fixed PATH: aliases, functions and folders of the session's shell do not affect the search.
_START = ["/usr/bin/env", "-i", f"PATH={_PATH}", "LC_ALL=C.UTF-8", "/bin/sh", "-c"]
# The arguments: folder, kind, bytes, case flag, pattern, maximum matches per file, context lines, start; then globs for rg,
# "--find", and globs for find.
_SCRIPT = r"""
skipped() { echo "skipped=$("$@" 2>/dev/null | grep -c '')" >&2; }
cd "$1" || { echo "status=3" >&2; exit 3; }
kind=$2 bytes=$3 case=$4 pattern=$5 most=$6 context=$7 start=$8; shift 8
if command -v rg >/dev/null 2>&1; then
  n=0; for a do n=$((n+1)); [ "$a" = --find ] && break; done
  i=0; total=$#
  while [ $i -lt $total ]; do a=$1; shift; i=$((i+1)); [ $i -lt $n ] && set -- "$@" "$a"; done
  if [ "$kind" = files ]; then set -- --files --null "$@" -- "./$start"
  else
    [ -n "$start" ] || skipped rg --no-config --hidden --glob '!.git' "$@" --files-with-matches --text -e '\x00' . &
    set -- --max-columns COLUMNS --max-columns-preview --no-context-separator "$@" -e "$pattern" -- "./$start"
    set -- --null --no-heading --with-filename --line-number "$case" --max-count "$most" --context "$context" "$@"
  fi
  set -- --no-config --color never --hidden --glob '!.git' --sort path "$@"
  { rg "$@"; echo "status=$?" >&2; } | head -c "$bytes"
else
  while [ "$1" != --find ]; do shift; done; shift
  skip=I; [ -z "$start" ] || skip=  # a binary file is skipped in a folder only
  list() { find "./$start" -name .git -prune -o -type f \( "$@" \) -print0 | LC_ALL=C sort -z; }
  if [ "$kind" = files ]; then list "$@" | head -c "$bytes"; echo "status=0" >&2
  else
    dialect=-E; printf '' | grep -P x >/dev/null 2>&1; [ $? -le 1 ] && dialect=-P
    [ "$case" = --ignore-case ] && dialect="${dialect}i"
    printf '' | grep --no-group-separator "${dialect}n${skip}HZ" -m 1 -C 0 -e "$pattern" -- >/dev/null
    [ $? -le 1 ] || { echo "status=2" >&2; exit 2; }
    [ -n "$start" ] || list -size +0 \( "$@" \) | skipped xargs -0 -r grep -LI -e '' -- &
    list "$@" |
      xargs -0 -r grep --no-group-separator "${dialect}n${skip}HZ" -m "$most" -C "$context" -e "$pattern" -- | head -c "$bytes"
    echo "status=0" >&2
  fi
fi
wait  # for the number of binary files
""".replace("COLUMNS", str(COLUMNS))


@dataclass(frozen=True, slots=True)
class Line:
    path: str
    number: int
    text: str
    match: bool
    is_cut: bool = False
    """True if the search program left out the line's end."""


@dataclass(slots=True)
class Outcome:
    """Result of a search. ``total`` counts matches or files seen; ``incomplete`` gives the reason why there may be more.

    ``left_out``: toolcrib's own files below the folder were not searched.
    """

    lines: list[Line] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    total: int = 0
    unread: int = 0
    binary: int = 0
    """Number of binary files that match. Not all of their lines are in the output."""
    skipped: int = 0
    """Number of binary files in the folder that were not searched to the end, without those of ``binary``."""
    incomplete: str = ""
    left_out: bool = False


@dataclass(frozen=True, slots=True)
class Area:
    """A folder to search. ``start``: the path below ``root`` where the search begins, "" for all of it. ``without``: paths below
    ``root`` to leave out, with everything in them.
    """

    root: str
    start: str
    without: Sequence[str] = ()
    on_host: bool = False


@dataclass(frozen=True, slots=True)
class _Ran:
    out: bytes
    err: str
    stopped: str = ""
    """The reason why the search stopped early."""


async def find_in_content(args: dict[str, Any], ctx: ToolCallContext, area: Area) -> Outcome:
    """Find the lines that match the pattern, sorted by path. Raises InvalidArguments for a bad pattern or glob."""
    most = int(args.get("limit", 100)) + 1
    case = "--ignore-case" if args.get("ignore_case", False) else "--case-sensitive"
    numbers = (str(most), str(int(args.get("context", 0))))
    ran = await _run(ctx, area, ["content", case, args["pattern"], *numbers], args.get("glob"))
    found = _outcome(ran)
    found.lines = [line for line in _lines(ran.out) if not _is_out(line.path, area)]
    found.binary = len(_BINARY.findall(ran.out)) + ran.err.count(": binary file matches\n")
    found.skipped = max(0, sum(map(int, re.findall(r"^skipped=(\d+)$", ran.err, re.MULTILINE))) - found.binary)
    found.total = sum(line.match for line in found.lines)
    return found


async def find_by_name(args: dict[str, Any], ctx: ToolCallContext, area: Area) -> Outcome:
    """Find the files whose name matches the pattern (a glob) and, if given, ``glob``. A glob with a slash matches the path."""
    ran = await _run(ctx, area, ["files", "--case-sensitive", "", "1", "0"], args["pattern"])
    found = _outcome(ran)
    whole, _, _ = ran.out.rpartition(b"\0")
    names = [_plain(name) for name in whole.split(b"\0") if name]
    glob = args.get("glob")
    found.names = sorted(name for name in names if (not glob or _fits(name, glob)) and not _is_out(name, area))
    found.total = len(found.names)
    return found


def _fits(name: str, glob: str) -> bool:
    wanted = glob.removeprefix("!")
    subject = name if "/" in wanted else name.rpartition("/")[2]
    globs = [*_braces(wanted), *(re.sub(r"\\(.)", r"[\1]", one) for one in _braces(_literal(wanted)))]  # fnmatch has no backslash
    hit = any(fnmatch.fnmatchcase(subject, one.replace("**/", "*")) for one in globs)
    return hit != glob.startswith("!")


def _is_out(name: str, area: Area) -> bool:
    return any(name == out or name.startswith(f"{out}/") for out in area.without)


async def _run(ctx: ToolCallContext, area: Area, head: Sequence[str], glob: str | None) -> _Ran:
    kind, case, pattern, most, context = head
    argv = [*_START, _SCRIPT, "search_files", area.root, kind, str(KEEP), case, pattern, most, context, area.start]
    out = [re.sub(r"[\\*?\[\]{}]", r"\\\g<0>", one) for one in area.without]
    argv += [*_rg_glob(glob), *(f"--glob=!/{one}" for one in out), "--find", "(", *_find_glob(glob), ")"]
    argv += [word for one in out for word in ("!", "-path", f"./{one}", "!", "-path", f"./{one}/*")]
    if area.on_host:
        return await _on_this_machine(argv)
    outcome = await ctx.environment.execute(ExecRequest(shlex.join(argv), cwd="/", timeout=SECONDS, keep=2 * KEEP))
    err = (outcome.stderr.head + outcome.stderr.tail).decode("utf-8", "replace")
    return _Ran(outcome.stdout.head + outcome.stdout.tail, err, _STOPPED.get(outcome.ended, ""))


async def _on_this_machine(argv: Sequence[str]) -> _Ran:
    import asyncio

    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), SECONDS)
    except TimeoutError:
        return _Ran(b"", "", _STOPPED["timeout"])
    finally:
        if process.returncode is None:
            _end(process.pid)
            await process.wait()
    return _Ran(out, err.decode("utf-8", "replace"))


def _end(pid: int) -> None:
    import os
    import signal

    os.killpg(pid, signal.SIGKILL)


def _rg_glob(glob: str | None) -> list[str]:
    """Return rg's options for a glob. They define a file type, because ``--glob`` would also override .gitignore for matching
    files. A glob that no file type can express (with a slash, a leading ``!`` or ``include:``) is passed as ``--glob``.
    """
    if not glob:
        return []
    both = dict.fromkeys((glob, _literal(glob)))
    if "/" in glob or glob.startswith(("!", "include:")):
        return [f"--glob={one}" for one in both]
    return [*(f"--type-add=wanted:{one}" for one in both), "--type=wanted"]


def _literal(glob: str) -> str:
    """Return the glob with its brackets, and its braces without a comma, taken literally: [id].tsx and {rule}.md are names."""
    return re.sub(r"(?<!\\)[\[\]]", r"\\\g<0>", re.sub(r"(?<!\\)\{([^{},]*)\}", r"\{\1\}", glob))


def _find_glob(glob: str | None) -> list[str]:
    if not glob:
        return ["-name", "*"]
    wanted = glob.removeprefix("!")
    tests: list[str] = []
    for one in dict.fromkeys([*_braces(wanted), *_braces(_literal(wanted))]):
        tests += ["-o"] * bool(tests)
        tests += ["-path", "./" + one.lstrip("/").replace("**/", "*")] if "/" in one else ["-name", one]
    return ["!", "(", *tests, ")"] if glob.startswith("!") else tests


def _braces(glob: str) -> list[str]:
    """Return ``*.{a,b}`` as two globs, because find and fnmatch do not support braces."""
    match = re.search(r"(?<!\\)\{([^{}]*)\}", glob)
    if match is None:
        return [glob]
    before, after = glob[: match.start()], glob[match.end() :]
    return [whole for part in match[1].split(",")[:50] for whole in _braces(before + part + after)][:200]


def _outcome(ran: _Ran) -> Outcome:
    """Parse the search's messages. Raises ExecutionFailed or InvalidArguments if it could not search at all."""
    found = Outcome()
    said = [line for line in ran.err.splitlines() if not line.startswith(("status=", "skipped="))]
    status = re.findall(r"^status=(\d+)$", ran.err, re.MULTILINE)
    unreadable = [line for line in said if re.search(r"\(os error \d+\)|Permission denied|No such file", line)]
    found.unread = len(unreadable)
    if ran.stopped and not status:  # else only the number of binary files is missing
        found.incomplete = ran.stopped
    elif len(ran.out) >= KEEP:
        found.incomplete = f"stopped after {KEEP} bytes of results"
    elif not status:
        raise ExecutionFailed(f"the search did not run: {' '.join(said) or 'are /bin/sh, find and grep missing?'}")
    elif int(status[-1]) >= 2 and len(unreadable) < len(said):
        raise _bad([line for line in said if line not in unreadable])
    return found


def _bad(said: Sequence[str]) -> InvalidArguments | ExecutionFailed:
    text = "\n".join(said)[:1000]
    if re.search(r"(unrecognized|invalid|unknown) option", text):
        return ExecutionFailed(f"the grep there lacks needed options; install ripgrep or GNU grep: {text}")
    if "glob" in text and "regex parse" not in text:
        return InvalidArguments(f"glob: {text}; write it like '*.py' or 'src/**/*.ts'")
    if re.search(r"regex|literal|look-around|unmatched|Unmatched|[Ii]nvalid|missing|quantifier|backreference|grep:", text):
        return InvalidArguments(
            f"pattern: not a valid regular expression: {text}\nPut a backslash before characters meant literally: \\( \\["
        )
    return ExecutionFailed(f"the search failed: {text}")


# Messages of ripgrep and grep about binary files are among the results.
_MESSAGE = (
    rb"(?:[^\0\n]*: (?:WARNING: stopped searching binary file after match|binary file matches)(?: \(found [^\n]*\))?"
    rb"|Binary file [^\0\n]* matches)\n"
)
_BINARY = Regex(rb"(?m)^" + _MESSAGE)
_RECORD = Regex(rb"(?:" + _MESSAGE + rb")*([^\0]+)\0(\d+)([:-])([^\n]*)\n")
_PREVIEW = Regex(r" ?\[\.\.\. (?:omitted end of long line|\d+ more match(?:es)?)\]$")
"""The end of a line that ripgrep has shortened."""


def _lines(out: bytes) -> list[Line]:
    """Parse ``PATH NUL NUMBER : TEXT``, with ``-`` for a line of context.

    An incomplete last record is left out, because the regular expression would be tried at each of its bytes.
    """
    lines: list[Line] = []
    for path, number, sign, text in _RECORD.findall(out[: out.rfind(b"\n") + 1]):
        shown = text.decode("utf-8", "backslashreplace").removesuffix("\r")
        is_cut = len(text) > COLUMNS and _PREVIEW.search(shown) is not None
        lines.append(Line(_plain(path), int(number), _PREVIEW.sub("", shown) if is_cut else shown, sign == b":", is_cut))
    return lines


def _plain(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace").removeprefix("./")
