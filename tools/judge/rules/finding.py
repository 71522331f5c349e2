"""Rules: deletions by find and fd."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.file_view import Looks
from tools.judge.meaning.value import HOLE, Value
from tools.judge.table import ActView, Test, operand, rule, text, word

_STARTS = Regex(r"[-(!\\]")


def _find_starts(view: ActView) -> Sequence[Value]:
    """Return the folders that find starts from: "." if none is named, and also an unknown one if find follows links."""
    found: list[Value] = []
    if not {"-L", "-follow"}.isdisjoint(view.words):
        found.append(Value(HOLE))
    for given in view.act.argv[1:]:
        if given.text in ("-L", "-H", "-P"):
            continue
        if _STARTS.match(given.text):
            break
        found.append(given)
    return found or [Value(".")]


_REMADE = Regex(r"\*\.py[co]|__pycache__|\*\.py\[co\]|\.DS_Store|\*\$py\.class")
"""Names of files that programs recreate and people do not write."""
_NARROWS = {
    **dict.fromkeys(("-type", "-mindepth", "-maxdepth", "-mtime", "-mmin", "-newer", "-size", "-path", "-user", "-name"), 1),
    **dict.fromkeys(("-depth", "-empty", "-mount", "-xdev", "-print", "-print0", "-ls"), 0),
}
"""Words of find that only narrow the matches for later words, or print names, with the number of their arguments."""


def _only_remade(view: ActView, looks: Looks) -> bool:
    """Return whether find deletes only empty folders or reproducible files in the workspace."""
    starts = _find_starts(view)
    words = iter(view.words[len(starts) if view.words[0][:1] not in "-(!" else 0 :])
    chosen, tests = False, set[str]()
    while test := next(words, ""):
        if test == "-delete":
            break
        if test == "(":
            given = list(iter(lambda: next(words, ")"), ")"))
            if set(given[::3]) != {"-name"} or set(given[2::3]) - {"-o", "-or"} or len(given) % 3 != 2:
                return False
            chosen = chosen or all(map(_REMADE.fullmatch, given[1::3]))
            continue
        leaves_out = test in ("!", "-not")
        test = next(words, "") if leaves_out else test
        if test not in _NARROWS:
            return False
        wanted = next(words, "") if _NARROWS[test] else ""
        if not leaves_out:
            tests.add(f"{test} {wanted}" if test == "-type" else test)
            chosen = chosen or (test == "-name" and _REMADE.fullmatch(wanted) is not None)
    chosen = chosen or tests >= {"-type d", "-empty"}
    return chosen and not set(words) - {"-print", "-print0", "-ls"} and not view.act.fed and looks.are_inside(view.act, starts)


_WORD_OF_NAME = Regex(r"[A-Za-z0-9]{2}")


def _only_named(view: ActView) -> bool:
    """Return whether find deletes only files of certain names, which a user may approve even in a home."""
    words = view.words
    before = words[: words.index("-delete")] if "-delete" in words else words
    if not _EITHER.isdisjoint(before):
        return False
    named = (wanted for test, wanted in itertools.pairwise(before) if test in ("-name", "-iname"))
    return any(_WORD_OF_NAME.search(wanted) for wanted in named)


_EITHER = frozenset({"-o", "-or", ",", "!", "-not"})


RULES = (
    rule(
        "fs.find-delete",
        "ask",
        "find gfind bfs",
        word("-delete") & ~Test(_only_named),
        "deletes all matching files",
        yes="find . -mtime +3 -delete",
        no=("find . -name '*.o' -print", "find . -name -delete.txt"),
        paths=_find_starts,
        roots=True,
        seen=lambda view, looks: not _only_remade(view, looks),
    ),
    rule(
        "fs.find-delete",
        "ask",
        "find gfind bfs",
        word("-delete") & Test(_only_named),
        "deletes all matching files",
        yes=("find . -name '*.o' -delete", "find ~ -name '*.log' -delete"),
        no="find . -name '*.o' -print",
        paths=_find_starts,
        seen=lambda view, looks: not _only_remade(view, looks),
    ),
    rule(
        "fs.find-delete",
        "ask",
        "find gfind bfs",
        word("-fprint0?|-fls|-fprintf") & operand(r"/(?:etc|usr|boot|bin|sbin|lib|var/lib|root)/.*"),
        "overwrites a system file with its results",
        yes="find . -fprint /etc/passwd",
        no="find . -fprint out.txt",
    ),
    rule(
        "fs.find-delete",
        "ask",
        "fd fdfind find gfind",
        text(
            r"(?:^| )(?:-x|-X|--exec|--exec-batch|-exec|-execdir|-ok|-okdir)[ =](?:sudo )?(?:/\S*/)?(?:rm|shred|unlink|rmdir"
            r"|truncate|srm|trash)(?: |$)"
        ),
        "deletes all matching files",
        yes=("fd -e tmp -x rm", "find . -mtime +1 -exec rm {} +"),
        no=("fd -e tmp", "find . -exec grep -l 'rm x' {} +"),
    ),
)
