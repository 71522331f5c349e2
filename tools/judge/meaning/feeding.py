"""Commands that get their arguments from a list: find -exec, xargs, parallel, fd -x."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.contract.namedtuple import NamedTuple
from tools.judge.meaning.value import HOLE, Taint, Value, joined, names, unknown
from tools.judge.meaning.wrappers import Inner, fed_value, words_of
from tools.judge.options import grammar, read

Values = Sequence[Value]

MOST = 64
"""Number of arguments from a list that are followed one by one."""
_EXEC = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


def find(argv: Values, stdin: Value | None) -> list[Inner]:
    roots: list[Value] = []
    for value in argv[1:]:
        if value.text[:1] in ("-", "(", "!"):
            break
        roots.append(value)
    ending = _ending([value.text for value in argv])
    if len(roots) == 1:
        text = roots[0].text.rstrip("/") if roots[0].text.rstrip("/") else ""
        name = Value(f"{text}/{HOLE}{ending}" if text != "." else f"./{HOLE}{ending}", roots[0].taint | Taint.UNKNOWN, shown="{}")
    else:
        name = Value(f"{HOLE}{ending}", Taint.UNKNOWN, shown="{}")
    found: list[Inner] = []
    at = 1
    while at < len(argv):
        at += 1
        if argv[at - 1].text in _EXEC:
            start = at
            while at < len(argv) and argv[at].text != ";" and not (argv[at].text == "+" and argv[at - 1].text == "{}"):
                at += 1
            inner = [filled(value, "{}", name) for value in argv[start:at]]
            if inner:
                found.append(Inner(argv=inner, fed=True, own=False))
    return found


def _ending(words: Sequence[str]) -> str:
    """Return the common ending of the names that ``find`` passes: ``.sh`` for ``-name '*.sh'``; "" if there is no plain one."""
    given = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "-name"]
    plain = len(given) == 1 and given[0][:1] == "*" and not set(given[0][1:]) & set("*?[\\")
    return given[0][1:] if plain and not _EITHER & set(words) else ""


_EITHER = frozenset({"-o", "-or", "!", "-not", ",", "-iname", "-path"})


def filled(value: Value, mark: str, by: Value) -> Value:
    if mark not in value.text:
        return value
    return Value(value.text.replace(mark, by.text), value.taint | by.taint, shown=value.text)


def list_of(argv: Values) -> Value | None:
    """Return the file that xargs or parallel reads its list from; None for standard input."""
    if argv[0].text.endswith("xargs"):
        return _asked(argv)[1].file
    texts = [value.text for value in argv]
    marked = [at for at, text in enumerate(texts[:-1]) if text in ("::::", "::::+", "-a", "--arg-file")]
    if marked and (texts[marked[0]][0] == "-" or (len(marked) == 1 and len(argv) - marked[0] == 2)):
        return argv[marked[0] + 1]
    return None


def xargs(argv: Values, stdin: Value | None) -> list[Inner]:
    at, asked = _asked(argv)
    mark, delimiter, each = asked.mark, asked.delimiter, asked.each
    source = stdin
    base = list(argv[at:]) or [Value("echo")]
    if source is None:
        return [Inner(argv=_with(base, mark, unknown()), fed=True)]
    if not source.known:
        return [Inner(argv=_with(base, mark, one), fed=True) for one in _partly(source)]
    text = source.text
    words = text.split(delimiter) if delimiter else (text.split("\n") if mark else words_of(text))
    words = [word for word in words if word] if delimiter or mark else words
    if len(words) > MOST:
        return [Inner(argv=_with(base, mark, fed_value(source)), fed=True)]
    values = [Value(word.strip() if mark else word, source.taint) for word in words]
    if mark:
        return [Inner(argv=[filled(word, mark, value) for word in base]) for value in values]
    if each:
        return [Inner(argv=[*base, *values[start : start + each]]) for start in range(0, len(values), each)]
    return [Inner(argv=[*base, *values])]


class _Asked(NamedTuple):
    """The values of xargs' options: ``mark`` of -I, ``delimiter`` of -d and -0, ``each`` of -n and -L, ``file`` of -a."""

    mark: str = ""
    delimiter: str = ""
    each: int = 0
    file: Value | None = None


def _asked(argv: Values) -> tuple[int, _Asked]:
    """Return the index of the fed command, and the options before it."""
    reading = read([value.text for value in argv], "xargs")
    asked = _Asked()
    for name, at, value, value_at in reading.options:
        if name in ("-I", "-i", "--replace"):
            asked = asked._replace(mark=value or "{}")
        elif name in ("-0", "--null"):
            asked = asked._replace(delimiter="\0")
        elif name in ("-d", "--delimiter"):
            asked = asked._replace(delimiter=(value or "").replace("\\n", "\n").replace("\\0", "\0").replace("\\t", "\t"))
        elif name in ("-n", "--max-args", "-L", "-l", "--max-lines"):
            asked = asked._replace(each=int(value) if value and value.isdigit() else 1)
        elif name in ("-a", "--arg-file"):
            asked = asked._replace(file=argv[value_at]._replace(text=value or "") if value_at == at else argv[value_at])
    return reading.operands[0] if reading.operands else len(argv), asked


def _partly(source: Value) -> list[Value]:
    """Return the words of a text with unknown parts; one value for all of them if there are more than a few."""
    words = source.text.split() or [HOLE]
    return [Value(word, source.taint) for word in dict.fromkeys(words[:4])] if len(words) < 5 else [fed_value(source)]


def _with(base: list[Value], mark: str, value: Value) -> list[Value]:
    return [filled(word, mark, value) for word in base] if mark else [*base, value]


def parallel(argv: Values, stdin: Value | None) -> list[Inner]:
    texts = [value.text for value in argv]
    reading = read(texts, "parallel")
    rules = grammar("parallel")
    if any(given.name in rules.dry for given in reading.options):
        return []
    at = reading.operands[0] if reading.operands else len(argv)
    words = list(argv[at:])
    marks = [index for index, value in enumerate(words) if value.text in (":::", "::::", ":::+")]
    command = words[: marks[0]] if marks else words
    given = words[marks[0] + 1 :] if marks else []
    if marks and words[marks[0]].text == "::::":
        marks = marks if stdin is None else []
        given = [unknown(Taint.LOCAL)]
    if not marks:
        source = stdin if stdin is not None else unknown()
        lines = [Value(line, source.taint) for line in source.text.split("\n") if line]
        given = lines if len(lines) <= MOST else [*lines[: MOST - 1], fed_value(source)]
    if len(marks) == 1 and words[marks[0]].text == ":::" and not given:
        return []  # there is no argument to run anything for
    text = joined(command, " ")
    if command and any(given.name in _PIPES for given in reading.options):
        return [Inner(text=text, stdin=stdin if stdin is not None else unknown(Taint.LOCAL))]  # fed as text, not as words
    found: list[Inner] = []
    for value in given[:MOST] or [unknown()]:
        if not command:
            found.append(Inner(text=value))
            continue
        filled = re.sub(r"\{[/.#%0-9+-]*\}", lambda _match, by=value: by.text, text.text)  # type: ignore[misc]  # a default binds
        if filled == text.text:
            filled = f"{text.text} {value.text}"
        found.append(Inner(text=Value(filled, text.taint | value.taint), fed=True))
    return found


_PIPES = names("--pipe --spreadstdin --pipepart --pipe-part")


def fd(argv: Values, stdin: Value | None) -> list[Inner]:
    for at, value in enumerate(argv):
        if value.text in ("-x", "-X", "--exec", "--exec-batch"):
            name = Value(HOLE, Taint.UNKNOWN, shown="{}")
            inner = [filled(word, "{}", name) for word in argv[at + 1 :] if word.text != ";"]
            if inner and not any("{}" in word.text for word in argv[at + 1 :]):
                inner.append(name)
            return [Inner(argv=inner, fed=True)] if inner else []
    return []


LISTS = frozenset({"xargs", "gxargs", "parallel"})
"""Programs that may read their list from a file in an option."""

SPECIALS = {
    "find": find,
    "gfind": find,
    "bfs": find,
    "xargs": xargs,
    "gxargs": xargs,
    "parallel": parallel,
    "fd": fd,
    "fdfind": fd,
}
