"""vim and ex: command lines that run programs, write or delete files, or evaluate another language."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.languages._tell import Tell, TooMuch
from tools.judge.meaning.act import Code, Sink
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value

MAX_DEPTH = 8
MAX_COMMANDS = 200
MAX_JOINED = 20

_RANGE = Regex(
    r"\s*:*\s*(?:(?:sil(?:ent)?|noautocmd|keepalt|verbose|\d*verb)!?\s+)*(?:%|[\d.$',+/-]+|'<,'>|g/[^/]*/|/[^/]*/)?\s*"
)
_WRITE = Regex(r"(?:w|wr|wri|writ|write|wq|x|xit|sav|saveas|up|update)(!?)(?:\s+(.*))?$")
_PROGRAM = Regex(r"(?:r|re|read)!?\s*!\s*(.*)|ter(?:m(?:inal)?)?!?\s+(.*)")
_EXECUTE = Regex(r"exe(?:c(?:ute?)?)?\s+(['\"].*)")
_REDIR = Regex(r"redi?r?!?\s*(>>?)\s*(\S+)\s*$")
_SOURCE = Regex(r"(?:so(?:u(?:r(?:ce?)?)?)?)!?\s+(\S+)\s*$")
_CALLS = Regex(r"\b(system|systemlist|delete|writefile|termopen|jobstart|job_start|term_start|libcall|rename|execute|eval)\s*\(")
_LANGUAGES = Regex(r"(py(?:thon)?[3x]?|pyx|perl?|rub?y?|lua|tcl)\s+(?:<<\s*(\w+)\n)?(.*)", re.DOTALL)
_NAMES = {"py": "python", "pe": "perl", "ru": "ruby", "lu": "lua", "tc": "tcl"}
_STRING = Regex(r"\s*(?:'((?:[^']|'')*)'|\"((?:[^\"\\]|\\.)*)\")")


def read(code: Code, args: Sequence[Value], sink: Sink) -> bool:
    tell = Tell(sink)
    edited = next((value for value in reversed(args) if value.text[:1] not in ("-", "+")), None)
    try:
        for line in code.text.text.split("\n"):
            _line(tell, line, code.text.taint, 0, edited)
    except TooMuch:
        return False
    return True


def _line(tell: Tell, line: str, taint: Taint, depth: int, edited: Value | None = None) -> None:
    """Run a line, with several commands between bars; a command that is given to a shell goes on to the line's end.

    ``edited``: the file whose text is edited.
    """
    if depth > MAX_DEPTH:
        raise TooMuch("depth")
    if _LANGUAGES.match(line.lstrip(": ")) is None:
        _calls(tell, line, taint, depth)
    parts = line.split("|", MAX_COMMANDS)
    for at in range(len(parts)):
        if parts[at].strip() and not _command(
            tell, parts[at], "|".join(parts[at:]) if at < MAX_JOINED else parts[at], taint, depth, edited
        ):
            return


def _text(string: re.Match[str]) -> str:
    return string[1].replace("''", "'") if string[1] is not None else re.sub(r"\\(.)", r"\1", string[2])


def _known(text: str, taint: Taint) -> Value:
    return Value(text, taint | (Taint.UNKNOWN if HOLE in text else Taint.NONE))


def _joined(source: str) -> str:
    """Return the text that texts and other terms with dots between them make, a HOLE for each of the others."""
    found: list[str] = []
    at = 0
    while at < len(source) and len(found) < MAX_JOINED:
        if string := _STRING.match(source, at):
            found.append(_text(string))
            at = string.end()
        elif source[at] in " .":
            at += 1
        else:
            found.append(HOLE)
            stop = re.compile(r"\s\.|\.\s|['\"]").search(source, at + 1)
            at = stop.start() if stop is not None else len(source)
    return "".join(found)


def _fed(tell: Tell, command: Value, edited: Value | None) -> None:
    """``:%!command``, ``:w !command``: it is given the text that is edited."""
    tell.shell(command, tell.read(edited) if edited is not None else None)


def _command(tell: Tell, part: str, line: str, taint: Taint, depth: int, edited: Value | None) -> bool:
    """Run one command of a line; return whether more commands may follow on the line."""
    match = _RANGE.match(line)
    command = line[match.end() :] if match is not None else line
    if match is not None and command.startswith("!"):
        ranged = any(char in match[0] for char in "%$.0123456789")
        _fed(tell, _known(command[1:].strip(), taint), edited if ranged else None)
        return False
    if found := _LANGUAGES.match(command):
        source = found[3]
        tell.code(_NAMES[found[1][:2]], Value(source, taint))
        return False
    if found := _PROGRAM.match(command):
        tell.shell(Value(found[1] or found[2], taint))
        return False
    if found := _EXECUTE.match(command):
        _line(tell, _joined(found[1]), taint, depth + 1, edited)
        return False
    if found := _SOURCE.match(command):
        text = tell.read(Value(found[1], taint))
        for one in text.text.split("\n") if text.known else ():
            _line(tell, one, taint | text.taint, depth + 1)
        if not text.known and found[1] not in ("%", "$MYVIMRC") and tell.sink.look(found[1]).kind != "missing":
            tell.code("vim", text, found[1])
    if (found := _REDIR.match(command)) and not found[2].startswith("@"):
        tell.write(Value(found[2], taint), append=found[1] == ">>")
    own = part[match.end() :] if match is not None else part
    if found := _WRITE.match(own.strip()):
        target = (found[2] or "").strip()
        if target.startswith("!"):
            _fed(tell, Value(command.partition("!")[2].strip(), taint), edited)
            return False
        if target:
            append = target.startswith(">>")
            tell.write(Value(target.lstrip("> "), taint), append=append)
    return True


def _calls(tell: Tell, command: str, taint: Taint, depth: int) -> None:
    for match in _CALLS.finditer(command):
        texts: list[Value] = []
        at = match.end()
        while (string := _STRING.match(command, at)) is not None:
            texts.append(_known(_text(string), taint))
            comma = re.compile(r"\s*,").match(command, string.end())
            if comma is None:
                break
            at = comma.end()
        first = texts[0] if texts else ANYTHING
        name = match[1]
        if name == "delete":
            tell.remove(first, recursive=len(texts) > 1 and "r" in texts[1].text)
        elif name == "writefile":
            tell.write(texts[-1] if texts else ANYTHING)
        elif name == "rename":
            tell.move(first, texts[1] if len(texts) > 1 else ANYTHING)
        elif name == "libcall":
            tell.code("native", ANYTHING, first.text)
        elif name in ("execute", "eval"):
            _line(tell, first.text, taint, depth + 1)
        else:
            tell.shell(first)
