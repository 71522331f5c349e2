"""Tcl and expect: exec, spawn, open, file delete, send."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.languages._tell import Tell, TooMuch, join
from tools.judge.meaning.act import Code, Sink
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value

MAX_DEPTH = 20

_INTERESTING = Regex(r"\b(?:exec|spawn|file delete|open|send|eval|system)\b")
_BRACES = "{}"
"""Mark of a word in braces: it may be a script."""

_WORD = Regex(r'"((?:[^"\\]|\\.)*)"|([^\s;{}\[\]"]+|[\]"])', re.DOTALL)
_VARIABLE = Regex(r"\$(?:\{(\w+)\}|(::)?(\w+)(?:\((\w+)\))?)")


def read(code: Code, args: Sequence[Value], sink: Sink) -> bool:
    tell = Tell(sink)
    try:
        return _script(tell, code.text.text, {}, 0)
    except TooMuch:
        return False


def _script(tell: Tell, source: str, names: dict[str, str], depth: int) -> bool:
    if depth > MAX_DEPTH:
        raise TooMuch("depth")
    words: list[Value] = []
    at = 0
    while at <= len(source):
        char = source[at] if at < len(source) else "\n"
        if char in "\n;":
            _command(tell, words, names, depth)
            words = []
            at += 1
        elif char in " \t\\":
            at += 2 if source.startswith("\\\n", at) else 1
        elif char == "#" and not words:
            newline = source.find("\n", at)
            at = len(source) if newline < 0 else newline
        elif char in "{[":
            end = _closing(source, at)
            if end is None:
                return False
            inner = source[at + 1 : end]
            if char == "[":
                _script(tell, inner, names, depth + 1)
            words.append(Value(inner, shown=_BRACES) if char == "{" else Value(HOLE, Taint.UNKNOWN))
            at = end + 1
        elif (match := _WORD.match(source, at)) is not None:
            words.append(_text(match[1] if match[1] is not None else match[2], names))
            at = match.end()
        else:
            at += 1
    return True


def _closing(source: str, at: int) -> int | None:
    opener = source[at]
    closer, depth = {"{": "}", "[": "]"}[opener], 0
    while at < len(source):
        char = source[at]
        if char == "\\":
            at += 1
        elif char == opener:
            depth += 1
        elif char == closer:
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return None


def _text(raw: str, names: dict[str, str]) -> Value:
    def replace(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        if name == "env" and match[4] == "HOME":
            return "~"
        return names.get(name, HOLE)

    shown = re.sub(r"\[.*?\]", HOLE, _VARIABLE.sub(replace, raw))
    shown = shown.replace("\\r", "\n").replace("\\n", "\n").replace('\\"', '"').replace("\\$", "$")
    return Value(shown, Taint.UNKNOWN if HOLE in shown else Taint.NONE)


def _command(tell: Tell, words: list[Value], names: dict[str, str], depth: int) -> None:
    if not words:
        return
    name, rest = words[0].text.removeprefix("::"), words[1:]
    handler = _HANDLERS.get(name)
    if handler is not None:
        handler(tell, name, rest, names)
        return
    for word in rest:
        if word.shown == _BRACES and _INTERESTING.search(word.text):
            _script(tell, word.text, names, depth + 1)


def _set(tell: Tell, name: str, rest: list[Value], names: dict[str, str]) -> None:
    if len(rest) > 1:
        names[rest[0].text] = rest[1].text


def _exec(tell: Tell, name: str, rest: list[Value], names: dict[str, str]) -> None:
    while rest and rest[0].text.startswith("-"):
        rest = rest[1:]
    if name == "system" or any(word.text in ("|", "<", ">", ">>", "2>", "|&") for word in rest):
        tell.shell(join(rest, " "))
    elif rest:
        tell.run(rest)


def _file(tell: Tell, name: str, rest: list[Value], names: dict[str, str]) -> None:
    plain = [word for word in rest if not word.text.startswith("-")]
    action = rest[0].text if rest else ""
    if action == "delete":
        for path in plain[1:]:
            tell.remove(path, recursive=any(word.text == "-force" for word in rest))
    elif action in ("rename", "copy") and len(plain) > 2:
        (tell.move if action == "rename" else tell.copy)(plain[1], plain[2])


def _open(tell: Tell, name: str, rest: list[Value], names: dict[str, str]) -> None:
    if rest and rest[0].text.startswith("|"):
        tell.shell(rest[0]._replace(text=rest[0].text[1:].strip(), shown=""))
    elif len(rest) > 1 and rest[1].text[:1] in ("w", "a"):
        tell.write(rest[0], append=rest[1].text[:1] == "a")


def _send(tell: Tell, name: str, rest: list[Value], names: dict[str, str]) -> None:
    plain = [word for word in rest if not word.text.startswith("-")]
    if plain:
        tell.run([Value("sh")], plain[-1])


def _eval(tell: Tell, name: str, rest: list[Value], names: dict[str, str]) -> None:
    if name == "source":
        tell.run([Value("tclsh"), rest[0] if rest else ANYTHING])
    else:
        tell.code("tcl", join(rest, " "))


_HANDLERS: dict[str, Callable[[Tell, str, list[Value], dict[str, str]], None]] = {
    "set": _set,
    "file": _file,
    "open": _open,
    "send": _send,
    "exp_send": _send,
    **dict.fromkeys(("exec", "spawn", "system", "overlay"), _exec),
    **dict.fromkeys(("eval", "subst", "uplevel", "source"), _eval),
}
