"""Files that a line names to programs that may write them: any program that is not known to only read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase

from toolcrib.contract.regex import Regex
from tools.judge.folders import normal
from tools.judge.meaning import tables
from tools.judge.meaning.act import Act
from tools.judge.meaning.interpreters import SHELLS
from tools.judge.meaning.value import HOLE, names
from tools.judge.readers import may_write

_PARTS = Regex(r"[\s'\"=:,;|&<>(){}]+|(?<=^-\w)(?=\S)")
"""Characters that separate names of files in one word."""
_KEEP = names(
    "chmod chown touch mkdir rm rmdir unlink kill pkill set export declare local trap source . eval exec dd sudo env timeout"
    " nohup nice setsid stdbuf time xargs find code less more bat ag ack shellcheck mypy pylint flake8 pytest py_compile"
    " git-add git-commit git-stage git-rm git-mv git-restore git-checkout git-push ruff-check"
)
"""Programs that write no text into the files that they name, besides readers, or whose changes are found in another way."""
_COPIES = names("cp mv ln install rsync scp")
"""Programs that only write their last operand."""
_EDITORS = frozenset({"vim", "ed", "sed", "awk"})


def named(acts: Collection[Act]) -> set[str]:
    """Return patterns of the absolute paths that the acts name to programs that may write them."""
    return {path for act in acts for path in _of(act)}


def is_named(path: str, patterns: Collection[str]) -> bool:
    return path in patterns or any("*" in one and fnmatchcase(path, one) for one in patterns)


def _of(act: Act) -> Iterator[str]:
    words = [value.text for value in act.argv]
    folders = act.cwds or ("*",)
    if "-C" in words[:-1]:
        folders = (*folders, *(normal(f"{one}/{words[words.index('-C') + 1]}") for one in folders))
    for part in (part for word in _written(act.name, words) if HOLE not in word for part in _PARTS.split(word)):
        if part:
            yield from [part] if part[0] == "/" else (normal(f"{one}/{part}") for one in folders)


def _written(name: str, words: Sequence[str]) -> Sequence[str]:
    """Return the words of a program that may name files which it writes."""
    spec = tables.interpreter(name)
    if words[1:2] == ["-m"]:
        words = words[2:]
    elif name in SHELLS or (spec is not None and spec.language not in _EDITORS):  # it reads its script, or runs its code
        first = next((at for at, word in enumerate(words) if at and word[:1] != "-"), len(words))
        return words[first + 1 :]
    name = words[0].rpartition("/")[2] if words else ""
    keeps = name in _KEEP or ("-".join([name, *words[1:2]]) in _KEEP and "--fix" not in words)
    if keeps or not may_write(name, words[1:]):
        return ()
    return words[-1:] if name in _COPIES else words[1:]
