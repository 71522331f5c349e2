"""Shell patterns in paths: the dangerous paths that a pattern may name, part by part."""

from __future__ import annotations

import fnmatch
import functools
import itertools
from collections.abc import Iterator

from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import HOLE

_WILD = Regex(rf"[*?\[{HOLE}]|[+@!]\(")
_EXTENDED = Regex(r"[?*+@!]\([^()]*\)")
_SET = Regex(r"\[[!^]?\]?(?:\[[:=.][^\]]*\]|[^\]])*\]")
_TOP = tuple("bin boot dev etc lib proc root run sbin sys usr var".split())
_DEVICES = tuple("pts sda vda nvme0n1 tty1 console mem dm-0 loop0".split())
_SETTINGS = tuple("passwd shadow sudoers sudoers.d crontab cron.d profile profile.d ssh pam.d ld.so.preload".split())
_INSIDE = tuple(
    ".git .ssh hooks config config.worktree info attributes refs objects logs HEAD index pre-commit fsmonitor-watchman update"
    " environ mem fd site-packages".split()
)
_MOST = 200


def is_wild(text: str) -> bool:
    """Return whether a text is a pattern, or has unknown parts."""
    return _WILD.search(text) is not None


def part_matches(pattern: str, name: str) -> bool:
    """Return whether one part of a pattern, including HOLEs, may match a name. Case is ignored, because the shell may
    ignore it.
    """
    if name[:1] == "." and pattern[:1] != ".":
        return False
    if "(" in pattern:
        pattern = _EXTENDED.sub("*", pattern)
    if "[" in pattern:
        pattern = _SET.sub("?", pattern)
    return fnmatch.fnmatchcase(name.lower(), pattern.replace(HOLE, "*").lower())


def _matched(pattern: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([name for name in names if part_matches(pattern, name)])


_SHORT = 64
"""Maximum length of a pattern whose matches are cached; many rules ask about the same pattern."""
_known = functools.lru_cache(maxsize=256)(_matched)


def dangerous(path: str) -> Iterator[str]:
    """Yield absolute paths that the absolute pattern ``path`` may name, and that rules may cover."""
    choices: list[tuple[str, ...]] = []
    for at, part in enumerate(path.split("/")):
        if not is_wild(part):
            choices.append((part,))
            continue
        names = _TOP if at == 1 else _INSIDE
        if at == 2:
            names = _DEVICES if "dev" in choices[1] else _SETTINGS if "etc" in choices[1] else names
        choices.append((*(_known(part, names) if len(part) <= _SHORT else _matched(part, names)), part))
    for parts in itertools.islice(itertools.product(*choices), _MOST):
        if (found := "/".join(parts)) != path:
            yield found
