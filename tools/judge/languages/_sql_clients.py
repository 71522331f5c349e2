"""Commands of the clients psql, mysql and sqlite3, and the functions of SQL that run programs or open files."""

from __future__ import annotations

import re
from collections.abc import Callable

from toolcrib.contract.regex import Regex
from tools.judge.languages._tell import Tell
from tools.judge.meaning.value import HOLE, Taint, Value

Include = Callable[[str], None]

_COMMAND = Regex(r"\\(\\|[!.]|[a-z_]+)\+?[ \t]*", re.IGNORECASE)
_DOT = Regex(r"\.([a-z]+)\b[ \t]*(.*)", re.IGNORECASE)
_DOTS = "shell system output once import read restore open save backup clone trace load log cd excel archive".split()
"""Commands of sqlite3, which takes any beginning of a name: of several, the first of these runs, or does most."""
_SHELL = frozenset("shell system ! pager p setenv".split())
_WHOLE = frozenset("! system copy pager p source .".split())
"""Commands whose argument is the rest of the line."""
_INCLUDES = frozenset("read i ir include include_relative source .".split())
_WRITES = frozenset("output once save backup clone trace log o out g gx w write s tee t lo_export open".split())
_READS = frozenset("import restore lo_import".split())
_UNKNOWN = frozenset("e edit ef ev gexec archive excel".split())
"""Commands that run an editor, another program, or the results of a query."""
_SHOWS = Regex(r"(?:^|\s)--?[exw](?:\s|$)")
"""Options of ``.once`` and ``.output`` that open the output in a program."""
_NO_FILE = frozenset(("stdout", "off", "stderr", "stdin", "pstdin", "pstdout", "program", "on"))
_PIPED = Regex(r"(?:^|\s)(?:\"\s*\|([^\"]*)\"|'\s*\|([^']*)'|\|(.*))", re.DOTALL)
"""A command in place of a file: ``.import "|ls" t``, ``.once |sh``."""
_PROGRAM = Regex(r"\bprogram\s+(?:'((?:[^']|'')*)'|\$(\w*)\$(.*?)\$\2\$|(?=[\w$:]))", re.IGNORECASE | re.DOTALL)
_COPIED = Regex(r"\((?:[^()']|'[^']*')*\)|\b(to|from)\s+('[^']*'|[^\s()]+)", re.IGNORECASE)
_VARIABLE = Regex(r"(?<![:\w]):['\"]?\w")
_WORD = Regex(r"'(?:[^']|'')*'|\"[^\"]*\"|\S+")


def command(tell: Tell, line: str, taint: Taint, include: Include) -> int:
    """Report the effects of the client's commands at the start of ``line``, and return the length of their text."""
    if line[:1] == ".":
        if (dot := _DOT.match(line)) is not None:
            name = next((one for one in _DOTS if one.startswith(dot[1].lower())), "")
            _one(tell, name, dot[2].strip(), taint, include)
        return len(line)
    at = 0
    while (match := _COMMAND.match(line, at)) is not None:
        name = match[1].lower()
        if name == "\\":  # SQL follows
            return match.end()
        stop = len(line) if name in _WHOLE else line.find("\\", match.end())
        stop = len(line) if stop < 0 else stop
        rest = line[match.end() : stop].strip()
        for quoted in [] if name in _WHOLE else re.findall(r"`([^`]*)", rest)[::2]:
            tell.shell(Value(quoted, taint))
        _one(tell, name, rest, taint, include)
        at = stop
    return at


def unknown(tell: Tell) -> None:
    """Report that something runs which can't be read."""
    tell.shell(Value(HOLE, Taint.UNKNOWN))


def _one(tell: Tell, name: str, rest: str, taint: Taint, include: Include) -> None:
    words = [word.strip("'\"") for word in _WORD.findall(rest)]
    plain = [word for word in words if word[:1] != "-" and word.lower() not in _NO_FILE]
    if name in _SHELL:
        if rest:
            tell.shell(Value(" ".join(words[1:]) if name == "setenv" else rest, taint))
    elif (
        name in _UNKNOWN
        or (name in ("once", "output") and _SHOWS.search(rest))
        or (name in _WRITES | _READS | _INCLUDES and name != "import" and _VARIABLE.search(rest))
    ):
        unknown(tell)
    elif (piped := _PIPED.search(rest)) is not None and name != "copy":
        tell.shell(Value((piped[1] or piped[2] or piped[3]).strip(), taint))
    elif name == "copy":
        copied(tell, rest, taint)
    elif name in _INCLUDES and plain:
        include(plain[-1])
    elif name in _READS and plain:
        tell.read(Value(plain[-1 if name == "restore" or name == "lo_import" else 0], taint))
    elif name in _WRITES and plain:
        tell.write(Value(plain[-1], taint), append=name == "open")
    elif name == "cd":
        tell.cwd = tell.place(Value(plain[0] if plain else "~", taint))
    elif name == "load":
        tell.code("native", Value(HOLE, taint | Taint.UNKNOWN), " ".join(plain))


def copied(tell: Tell, text: str, taint: Taint) -> None:
    """Report the programs and files of a COPY."""
    for match in _PROGRAM.finditer(text):
        program = match[1] if match[1] is not None else match[3]
        if program is None:
            unknown(tell)
        else:
            tell.shell(Value(program.replace("''", "'"), taint))
    for to, path in _COPIED.findall(text):
        path = path.strip("'")
        if path.lower() not in ("", *_NO_FILE):
            (tell.write if to.lower() == "to" else tell.read)(Value(path, taint))


_OPENS = Regex(r"(?:ATTACH (?:DATABASE )?|VACUUM\b.*?\bINTO )(?:'((?:[^']|'')*)'(?= AS\b|$))?", re.IGNORECASE)
_CALL = Regex(r"\b(writefile|lo_export|edit) ?\(", re.IGNORECASE)
_LITERAL = Regex(r"'((?:[^']|'')*)' ?(?=[,)])")


def functions(tell: Tell, shown: str, taint: Taint) -> None:
    """Report the files that a statement opens or writes, and the editors that it runs."""
    if (opens := _OPENS.match(shown)) is not None:
        if opens[1] is None:
            unknown(tell)
        elif (path := opens[1].removeprefix("file:").partition("?")[0]) not in ("", ":memory:"):
            tell.write(Value(path, taint), append=True)
    for call in _CALL.finditer(shown):
        name = call[1].lower()
        start = call.end()
        if name != "writefile":  # the file of lo_export and the program of edit are the second argument
            comma = shown.find(",", start)
            start = comma + 1 if comma >= 0 else len(shown)
        literal = _LITERAL.match(shown, start + (shown[start : start + 1] == " "))
        if literal is None:
            unknown(tell)
        else:
            (tell.shell if name == "edit" else tell.write)(Value(literal[1].replace("''", "'"), taint))
