"""The bodies of here-documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from toolcrib.contract.dataclass import dataclass
from tools.judge.shell.tree import Redirect

Fail = Callable[[str, int], NoReturn]


@dataclass(slots=True)
class Heredoc:
    """A here-document before its body is read. ``quoted``: its body has no expansions. ``tabs``: remove leading tabs."""

    redirect: Redirect
    delimiter: str
    quoted: bool
    tabs: bool
    start: int


def read_body(text: str, pos: int, heredoc: Heredoc, in_substitution: bool, fail: Fail) -> tuple[str, int]:
    """Return the body from ``pos``, and the offset after its delimiter. As in bash, the text's end may replace the delimiter."""
    delimiter = heredoc.delimiter
    if not (heredoc.tabs or in_substitution):
        if text.startswith(delimiter + "\n", pos):
            return "", pos + len(delimiter) + 1
        at = text.find(f"\n{delimiter}\n", pos)
        body = text[pos : at + 1]
        if at >= 0 and (heredoc.quoted or "\\\n" not in body):
            return body, at + len(delimiter) + 2
    return _by_line(text, pos, heredoc, in_substitution, fail)


def _by_line(text: str, pos: int, heredoc: Heredoc, in_substitution: bool, fail: Fail) -> tuple[str, int]:
    lines: list[str] = []
    while pos < len(text):
        start = pos
        line, pos = _line(text, pos, joined=not heredoc.quoted)
        if heredoc.tabs:
            line = line.lstrip("\t")
        if line == heredoc.delimiter:
            break
        if in_substitution and ")" in line and line.startswith(heredoc.delimiter):
            # ``EOF)`` ends the body and the substitution. With something in between only bash 5.2 ends the body there.
            rest = line[len(heredoc.delimiter) :]
            end = pos - 1 if text[pos - 1] == "\n" else pos
            if rest[0] != ")" or text[end - len(rest) : end] != rest:
                fail("a here-document's delimiter with more on its line, in a command substitution", start)
            return "".join(lines), end - len(rest)
        lines.append(line + "\n")
    return "".join(lines), pos


def _line(text: str, pos: int, *, joined: bool) -> tuple[str, int]:
    """Return a line and the offset after it. ``joined``: a backslash at its end adds the next line."""
    pieces: list[str] = []
    while True:
        end = text.find("\n", pos)
        last = end < 0
        line = text[pos : len(text) if last else end]
        pos = len(text) if last else end + 1
        if last or not joined or (len(line) - len(line.rstrip("\\"))) % 2 == 0:
            break
        pieces.append(line[:-1])
    if not pieces:
        return line, pos
    return "".join([*pieces, line]), pos
