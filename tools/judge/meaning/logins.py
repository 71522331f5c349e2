"""Programs that run a command as another user, or with other variables: ``env``, ``su``, ``runuser``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import EMPTY, HOLE, Taint, Value, unknown
from tools.judge.meaning.wrappers import Inner
from tools.judge.options import GivenOption, path_of, read

Values = Sequence[Value]

_ANY_NAME = Regex(r"([^-=][^=]*)=", re.DOTALL)
"""The name of any variable that ``env`` accepts: ``BASH_FUNC_ls%%=() { ...; }`` is a function of a bash that it starts."""
_MOST_SPLITS = 20


def env(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the command of ``env``, with the words of ``-S`` in place of the option."""
    for _ in range(_MOST_SPLITS):
        reading = read([value.text for value in argv], "env")
        split = next((one for one in reading.options if one.name == "--split-string" or one.name == "-S"), None)
        if split is None:
            break
        given = _given(argv, split)
        head = [] if split.at < 2 or argv[split.at].text[:2] == "--" else _before(argv[split.at])
        words = [Value(word, given.taint | (Taint.UNKNOWN if HOLE in word else Taint.NONE)) for word in split_words(given.text)]
        argv = [*argv[: split.at], *head, *words, *argv[max(split.at, split.value_at) + 1 :]]
    else:
        return [Inner(argv=[unknown(Taint.NONE)])]
    return _env(argv, reading.options, [*reading.operands])


def _before(value: Value) -> list[Value]:
    """Return the letters of a cluster before its ``S``: ``-iS``."""
    letters = value.text.partition("S")[0]
    return [value._replace(text=letters)] if len(letters) > 1 else []


def _env(argv: Values, options: Sequence[GivenOption], operands: list[int]) -> list[Inner]:
    environment: dict[str, Value] = {}
    cwd: Value | None = None
    bare = False
    for one in options:
        bare = bare or one.name in ("-i", "--ignore-environment")
        if one.name in ("-u", "--unset") and one.value is not None:
            environment[one.value] = EMPTY
        elif one.name in ("-C", "--chdir") and one.value is not None:
            cwd = _given(argv, one)
    if operands and argv[operands[0]].text == "-":
        bare = True
        del operands[0]
    for place, at in enumerate(operands):
        value = argv[at]
        match = _ANY_NAME.match(value.text)
        if match is None:
            return [Inner(argv=[argv[one] for one in operands[place:]], environment=environment, bare=bare, cwd=cwd)]
        environment[match[1]] = value._replace(text=value.text[match.end() :])
    return []


def _given(argv: Values, option: GivenOption) -> Value:
    """Return the value of an option as it was given."""
    value = argv[max(option.at, option.value_at)]
    return value if option.value_at > option.at else value._replace(text=option.value or "", shown="")


_ESCAPES = {"f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_PIECE = Regex(
    r"(?P<blank>(?:[ \t\n\v\f\r]|\\_)+)|(?P<end>\\c|(?<!\S)#)|'(?P<single>(?:[^'\\]|\\.)*)'?|\"(?P<double>(?:[^\"\\]|\\.)*)\"?"
    r"|(?P<plain>(?:[^ \t\n\v\f\r'\"\\#]|\\[^_c]|(?<=\S)#|\\\Z)+)",
    re.DOTALL,
)
_ESCAPE = Regex(r"\\(.)", re.DOTALL)
_SINGLE_ESCAPE = Regex(r"\\([\\'])")
_VARIABLE = Regex(r"(\\.)|\$\{\w+\}", re.DOTALL)


def split_words(text: str) -> list[str]:
    """Split the text of ``env -S`` by its own rules: quotes, escapes (``\\_`` is a blank), ``${NAME}``, comments."""
    found: list[str] = []
    open_word = False
    for match in _PIECE.finditer(text):
        kind, piece = match.lastgroup, match[match.lastgroup or 0]
        if kind == "end":
            break
        if kind == "blank":
            open_word = False
            continue
        if kind == "single":
            piece = _SINGLE_ESCAPE.sub(r"\1", piece)
        else:
            piece = _ESCAPE.sub(_escaped, _VARIABLE.sub(lambda one: one[1] or HOLE, piece))
        if open_word:
            found[-1] += piece
        else:
            found.append(piece)
        open_word = True
    return found


def _escaped(match: re.Match[str]) -> str:
    return " " if match[1] == "_" else _ESCAPES.get(match[1], match[1])


_COMMANDS = frozenset({"-c", "--command", "--session-command"})


def su(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the command of ``su`` and ``runuser``: the words of ``runuser -u``, the last ``-c``, or a shell with the words after
    USER.
    """
    reading = read([value.text for value in argv], path_of(argv[0].text.rpartition("/")[2]))
    operands = [argv[at] for at in reading.operands]
    if any(one.name in ("-u", "--user") for one in reading.options):
        return [Inner(argv=operands, own=True)] if operands else []
    if operands[:1] and operands[0].text == "-":
        del operands[0]
    texts = [one for one in reading.options if one.name in _COMMANDS and one.value is not None]
    shells = [one for one in reading.options if one.name in ("-s", "--shell") and one.value is not None]
    if texts:
        return [Inner(text=_given(argv, texts[-1]), own=True)]
    shell = _given(argv, shells[-1]) if shells else Value("sh")
    return [Inner(argv=[shell, *operands[1:]], own=True)] if operands[1:] else []


SPECIALS: dict[str, Callable[[Values, Value | None], list[Inner]]] = {"env": env, "su": su, "runuser": su}
