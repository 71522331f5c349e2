"""Output of ``echo`` and ``printf``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import EMPTY, HOLE, Elastic, Taint, Value, joined, listed, settled, unglobbed

Values = Sequence[Value]

_ESCAPE = Regex(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|0?([0-7]{1,3})|(.))", re.DOTALL)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v", "\\": "\\"}
_FORMAT = Regex(r"%(%|[-+ #0]*(\*|\d*)(?:\.(\*|\d*))?([bdiouxXcsqeEfgGaA])|\(([^)]*)\)T)")

_WIDTH_DIGITS = 4


def unescaped(text: str, *, echo: bool = False) -> tuple[str, bool]:
    """Return the text with its backslash escapes replaced, and whether ``\\c`` ended it."""
    stop = re.search(r"(?<!\\)(?:\\\\)*\\c", text)
    if stop is not None:
        text = text[: stop.end() - 2]

    def one(match: re.Match[str]) -> str:
        if match[1] or match[2] or match[3]:
            code = int(match[1] or match[2] or match[3], 16)
            return chr(code) if code < 0x110000 else ""
        if match[4]:
            return match[0] if echo and not match[0].startswith("\\0") else chr(int(match[4], 8) & 255)
        return _SIMPLE.get(match[5], match[0])

    if "\\" in text:
        text = _ESCAPE.sub(one, text)
    return text, stop is not None


def echo(argv: Values, *, escapes: bool = False) -> Value:
    words = list(argv[1:])
    newline = True
    while words and re.fullmatch(r"-[neE]+", words[0].text):
        for letter in words[0].text[1:]:
            newline = newline and letter != "n"
            escapes = letter == "e" if letter in "eE" else escapes
        words.pop(0)
    value = listed([unglobbed(word) if word.pattern else word for word in words], " ")
    text = value.text
    if escapes:
        text, ended = unescaped(text, echo=True)
        newline = newline and not ended
    return Value(text + "\n" * newline, value.taint)


def printf(argv: Values) -> Value:
    words = list(argv[1:])
    if words and words[0].text == "--":
        words.pop(0)
    if not words:
        return EMPTY
    form, rest = words[0], list(settled(words[1:]))
    if len(rest) < len(words) - 1 or any(isinstance(word, Elastic) for word in words):
        return Value(unescaped(form.text.partition("%")[0])[0] + HOLE, joined(words).taint | Taint.UNKNOWN)
    taint = joined(words).taint
    out: list[str] = []
    for _ in range(256):
        before = len(rest)
        text, ended = _once(form.text, rest)
        out.append(text)
        if ended or not rest or len(rest) == before:
            break
    else:
        out.append(HOLE)
        taint |= Taint.UNKNOWN
    return Value("".join(out), taint)


def _once(form: str, rest: list[Value]) -> tuple[str, bool]:
    """Apply the format once, and take its arguments from ``rest``."""
    out: list[str] = []
    at = 0
    for match in _FORMAT.finditer(form):
        text, ended = unescaped(form[at : match.start()])
        out.append(text)
        if ended:
            return "".join(out), True
        at = match.end()
        if match[1] == "%":
            out.append("%")
        elif match[4] is None:
            rest[:1] = []
            out.append(HOLE)
        else:
            text, ended = _directive(match, rest)
            out.append(text)
            if ended:
                return "".join(out), True
    text, ended = unescaped(form[at:])
    out.append(text)
    return "".join(out), ended


def _directive(match: re.Match[str], rest: list[Value]) -> tuple[str, bool]:
    letter = match[4]
    spec = match[0][:-1]
    for _ in range(spec.count("*")):
        width = rest.pop(0).text if rest else "0"
        spec = spec.replace("*", width if width.lstrip("-").isdigit() else "", 1)
    argument = rest.pop(0).text if rest else ""
    if any(len(number) > _WIDTH_DIGITS for number in re.findall(r"\d+", spec)):
        return HOLE, False  # the padding would be too long
    if HOLE in argument:
        return (HOLE if letter not in "sb" or spec != "%" else argument), False
    if letter == "b":
        text, ended = unescaped(argument)
        return (spec + "s") % text, ended
    if letter == "s":
        return (spec + "s") % argument, False
    if letter == "c":
        return argument[:1], False
    if letter == "q":
        return re.sub(r"([^\w@%+=:,./-])", r"\\\1", argument) or "''", False
    try:
        if argument[:1] in ("'", '"') and len(argument) > 1:
            number = ord(argument[1])
        else:
            number = int(argument or "0", 8 if re.fullmatch(r"-?0[0-7]+", argument) else 0)
        return (spec + ("d" if letter == "u" else letter)) % number, False
    except (ValueError, TypeError):
        return HOLE, False
