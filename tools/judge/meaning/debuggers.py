"""Debuggers: find the programs that their commands start. The commands are in a file, a pipe or an argument."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning import code, filestate, owned
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import HOLE, Taint, Value, names
from tools.judge.meaning.walk import Walker
from tools.judge.meaning.wrappers import Inner
from tools.judge.options import values

Values = Sequence[Value]

_MOST_FILES = 8
_MOST_LINES = 500

_SHELL = Regex(
    r"(?:(?:platform\s+)?she(?:ll?)?\s+|!\s*|pipe\s[^|]*\||\|[^|]*\||(?:target|tar)\s+[\w-]+\s*\||set\s+exec-wrapper\s"
    r"|_regexp-\w*shell\s)(?P<text>.*)"
)
_MAKE = Regex(r"make\b.*")
_RUN = Regex(r"(?:r|run|start|starti|set\s+args|process\s+launch\s.*?--|settings\s+set\s+target\.run-args)\s+(?P<text>.*)")
"""Commands with a program's arguments, which the debugger passes to a shell."""
_PYTHON = Regex(r"(?:py(?:thon)?|script(?:\s+(?:-l\s*\w+|--))?)(?:\s+(?P<text>.*))?")
_SOURCE = Regex(r"(?:command\s+)?so(?:u(?:r(?:ce?)?)?)?\s+(?:-[vs]\s+)*(?P<text>\S+)|command\s+script\s+import\s+(?P<module>\S+)")
_CALLS = Regex(r"\b(?:system|popen|execlp?)\s*\(\s*\"((?:[^\"\\]|\\.)*)\"")


def _lines(it: Walker, state: State, text: Value, left: list[int]) -> Iterator[Inner]:
    """Yield the commands that the lines of a script start; ``left`` counts the files that may still be read."""
    lines = iter(text.text.splitlines()[:_MOST_LINES])
    for line in lines:
        line = line.strip()
        if (match := _SHELL.fullmatch(line)) is not None:
            yield _shell(match["text"], text.taint)
        elif _MAKE.fullmatch(line):
            yield _shell(line, text.taint)
        elif (match := _RUN.fullmatch(line)) is not None:
            yield _shell(f": {match['text']}", text.taint)
        elif (match := _PYTHON.fullmatch(line)) is not None:
            block = match["text"] or "\n".join(iter(lambda: next(lines, "end"), "end"))
            yield Inner(argv=[Value("python3"), Value("-c"), Value(block, text.taint)], own=True)
        elif (match := _SOURCE.fullmatch(line)) is not None:
            yield from _file(it, state, Value(match["text"] or match["module"]), left)
        for call in _CALLS.finditer(line):
            yield _shell(re.sub(r"\\(.)", r"\1", call[1]), text.taint)


def _shell(text: str, taint: Taint) -> Inner:
    return Inner(text=Value(text, taint), own=True)


def _file(it: Walker, state: State, path: Value, left: list[int]) -> Iterator[Inner]:
    if path.text.endswith(".py"):
        yield Inner(argv=[Value("python3"), path], own=True)
        return
    left[0] -= 1
    owned.read_by_job(it, state, path.text, by_lines=True)
    text = filestate.content(it, state, path) if left[0] >= 0 else Value(HOLE, Taint.LOCAL)
    if text is None:
        return
    if not text.known or code.unfollowed(it, state, path):
        yield Inner(text=Value(HOLE, text.taint | Taint.UNKNOWN), own=True)
    else:
        yield from _lines(it, state, text, left)


def _debugger(scripts: str, lines: str) -> Callable[[Walker, State, Values], list[Inner]]:
    """Return a function that finds the programs that a debugger starts. ``scripts``: its options with a file of commands;
    ``lines``: its options with a command.
    """
    files, commands = names(scripts), names(lines)

    def runs(it: Walker, state: State, argv: Values) -> list[Inner]:
        left = [_MOST_FILES]
        found: list[Inner] = []
        words = [value.text for value in argv]
        end = words.index("--args") if "--args" in words else len(words)
        for option in values(words[:end], "", files | commands):
            value = argv[option.value_at]._replace(text=option.value or "", shown="")
            found += _file(it, state, value, left) if option.name in files else _lines(it, state, value, left)
        if state.stdin is not None and state.stdin.known:
            found += _lines(it, state, state.stdin, left)
        return found

    return runs


_GDB = _debugger(
    "-x -command --command -ix -init-command --init-command",
    "-ex -eval-command --eval-command -iex -init-eval-command --init-eval-command",
)
_LLDB = _debugger(
    "-s --source -S --source-before-file -K --source-on-crash",
    "-o --one-line -O --one-line-before-file -k --one-line-on-crash",
)

RECIPES = {
    **dict.fromkeys(("gdb", "cgdb", "gdb-multiarch", "rust-gdb"), _GDB),
    **dict.fromkeys(("lldb", "rust-lldb"), _LLDB),
}
