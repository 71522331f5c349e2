"""Commands of git that only read, and their read-only options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import names

Words = Sequence[str]

_GLOBAL = names("--no-pager -P --no-optional-locks --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs")
_COLOURS = Regex(r"color\.[a-z.]+=[a-z]*")
"""Settings for a single command that only choose colours."""
_SHOWS = names(
    "blame cat-file check-attr check-ignore cherry count-objects describe diff diff-files diff-index diff-tree for-each-ref log"
    " ls-files ls-tree merge-base name-rev rev-list rev-parse shortlog show show-ref status whatchanged"
)
"""Commands that show something, unless an option makes them write or run something."""
_LONGS = ("--output", "--ext-diff", "--show-signature", "--contents", "--textconv", "--filters", "--batch-command")
_LISTS = Regex(
    r"-a|-r|-v|-vv|--all|--remotes|--verbose|--list|--show-current|--(?:no-)?merged|--(?:no-)?contains|--points-at|--ignore-case"
    r"|--(?:no-)?(?:column|color)(?:=\w+)?|--(?:sort|format|abbrev|merged|no-merged|contains|no-contains|points-at)=.*"
)
_NARROWS = names("--list --merged --no-merged --contains --no-contains --points-at")
_CONFIG = Regex(
    r"-l|-z|--(?:get|get-all|get-regexp|get-urlmatch|list|global|local|system|worktree|show-origin|show-scope|name-only|null|bool"
    r"|int|path|includes|bool-or-int)|--(?:type|default)=.*"
)
_GETS = names("--get --get-all --get-regexp --get-urlmatch --list -l")


def git(words: Words) -> str:
    """Return why ``git`` with these known words may write or run something; "" if it only reads."""
    at = 0
    while at < len(words) and words[at][:1] == "-":
        if words[at] == "-C" and at + 1 < len(words):
            at += 2
            continue
        if words[at] == "-c" and at + 1 < len(words) and _COLOURS.fullmatch(words[at + 1]):
            at += 2
            continue
        if words[at] not in _GLOBAL and words[at:] != ["--version"]:
            return f"git {words[at]} may run a program"
        at += 1
    if at >= len(words):
        return ""
    command, rest = words[at], words[at + 1 :]
    if command in _SHOWS:
        return _shows(command, rest)
    check = _CHECKED.get(command)
    return f"git {command} is not a read-only git command" if check is None else check(rest)


def _shows(command: str, words: Words) -> str:
    for word in words:
        if word == "--":
            break
        name = word.partition("=")[0]
        if word[:2] == "--" and any(_is_of(long, name) for long in _LONGS):
            return f"git {command} {name} may write or run something"
        if word[:1] == "-" and "%G" in word:
            return f"git {command} {word} runs a program that checks signatures"
    return ""


def _is_of(long: str, name: str) -> bool:
    """Return whether an option's name may stand for ``long``, because git accepts prefixes."""
    return len(name) > 2 and long.startswith(name)


def _grep(words: Words) -> str:
    for word in words:
        if word == "--":
            break
        name = word.partition("=")[0]
        if word[:2] == "--" and (_is_of("--open-files-in-pager", name) or _is_of("--textconv", name)):
            return f"git grep {name} runs a program"
        if word[:1] == "-" and word[:2] != "--" and "O" in word:
            return "git grep -O runs a program"
    return ""


def _listing(words: Words) -> str:
    """Return why a command about branches or tags may change something; "" if it only lists."""
    options = [word for word in words if word[:1] == "-"]
    if not all(_LISTS.fullmatch(word) for word in options):
        return "it may create, move or delete a branch or tag"
    if len(options) < len(words) and not any(word.partition("=")[0] in _NARROWS for word in options):
        return "it would create a branch or tag"
    return ""


def _tags(words: Words) -> str:
    return _listing(["--list" if word == "-l" or word[:2] == "-n" else word for word in words])


def _config(words: Words) -> str:
    options = [word for word in words if word[:1] == "-"]
    if not all(_CONFIG.fullmatch(word) for word in options):
        return "it may change git's settings"
    first = words[0] if words else ""
    return "" if any(word in _GETS for word in options) or first in ("get", "list") else "it may change git's settings"


def _only(*allowed: str, more: str = "") -> Callable[[Words], str]:
    """Return a check of the words after a git command, which only allows ``allowed`` as the first one ("" for no words). Further
    words are only allowed after ``more``.
    """

    def check(words: Words) -> str:
        first = words[0] if words else ""
        if first not in allowed or (len(words) > 1 and first != more):
            return "it may change the repository"
        return _shows(first, words[1:])

    return check


_CHECKED: Mapping[str, Callable[[Words], str]] = MappingProxyType(
    {
        "branch": _listing,
        "config": _config,
        "grep": _grep,
        "reflog": _only("", "show", more="show"),
        "remote": _only("", "-v", "--verbose", "get-url", more="get-url"),
        "stash": _only("list", "show", more="show"),
        "tag": _tags,
        "worktree": _only("list"),
    }
)
