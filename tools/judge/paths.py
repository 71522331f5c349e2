"""Findings about files, the same for a file tool and a shell command."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.effects import effect_of
from tools.judge.findings import UNKNOWN_PATH, Finding, visible
from tools.judge.folders import is_home, under
from tools.judge.gitfolders import GitFolders
from tools.judge.globs import part_matches
from tools.judge.meaning.state import NoFiles, Seen
from tools.judge.meaning.value import HOLE, Value
from tools.judge.own_file_names import may_be_kept
from tools.judge.path_rules import PATH_RULES, Mode, PathRule
from tools.judge.procfs import judge_process

__all__ = [
    "PATH_RULES",
    "READABLE",
    "ROOTS",
    "Mode",
    "PathRule",
    "goes_on",
    "is_protected",
    "judge_change",
    "judge_read",
    "may_be_above",
    "may_go_into",
    "may_match",
    "path_rules",
    "resolve_value",
    "root_of",
    "spelled",
]

READABLE = (".md", ".py", ".txt")

ROOTS = Regex(
    r"(?:~|~[a-z_][\w-]*|/|/(?:private/)?(?:home|Users|export/home)(?:/[^/]+)?|/root"
    r"|/(?:bin|boot|dev|efi|etc|lib\w*|media|mnt|opt|proc|run|sbin|srv|sys|usr|var|System|Library|Applications|private"
    r"|Volumes|nix)"
    r"|/(?:usr|var)/(?:bin|sbin|lib\w*|share|local|local/bin|local/lib|spool|log)|/private/(?:etc|var)|/mnt/[a-z]|/etc/(?:ssh"
    r"|systemd|pam\.d))",
    re.ASCII,
)
"""Folders whose recursive deletion destroys the system or a home."""

_ROOT_NAMES = (
    *("bin boot dev efi etc home lib lib64 media mnt opt proc root run sbin srv sys usr var Users System Library").split(),
)
_GLOB = Regex(r"[*?\[{]")
"""A character with a special meaning in shell patterns."""
_WHOLE = Regex(r"(?:\*+|\.\*|\*\.\*|\.\[!\.\]\*|\.\[\^\.\]\*|\.\?\?\*|\.\[a-zA-Z0-9\]\*|\{[*.,!?\[\]]+\}|\[!\.\]\*|\?\*)")
"""Patterns that stand for (nearly) the whole content of a folder."""


def is_protected(path: str, protected: Sequence[str]) -> bool:
    return any(under(path, folder) for folder in protected)


def may_match(pattern: str, folder: str) -> bool:
    """Return whether the absolute shell ``pattern`` may name ``folder`` or something in it."""
    words, parts = pattern.split("/"), folder.split("/")
    return len(words) >= len(parts) and all(map(part_matches, words, parts))


def may_go_into(pattern: str, folder: str) -> bool:
    """Return whether a pattern with ``**`` (any folders but hidden ones) may name a file that toolcrib keeps in ``folder``."""
    words, parts = pattern.split("/"), folder.split("/")
    if "**" not in words:
        return False
    at = words.index("**")
    shown = not any(part[:1] == "." for part in parts[at:])
    return shown and all(map(part_matches, words[:at], parts)) and may_be_kept(words[-1])


def may_be_above(pattern: str, folder: str) -> bool:
    """Return whether the absolute shell ``pattern`` may name ``folder`` or a parent of it."""
    words, parts = pattern.split("/"), folder.split("/")
    return pattern[:1] == "/" and len(words) <= len(parts) and all(map(part_matches, words, parts))


# where a word points to


def spelled(value: Value, cwds: Sequence[str], home: str = "") -> list[str]:
    """Return the absolute paths that ``value`` may mean, with its HOLEs and globs unresolved; ``~`` stays if the home is unknown.

    The result is empty for an empty text, and for a relative path if the working folder is unknown.
    """
    text = value.text
    if not text:
        return []
    if text[0] == "~" and value.shown[:1] != "'":
        if home and (text == "~" or text[1] == "/"):
            text = home + text[1:]
        return [_absolute(text)]
    if text.startswith("/proc/self/cwd"):
        text = f".{text[14:]}"
    if text[0] == "/" or text[0] == HOLE:
        return [_absolute(text)]
    return [_absolute(f"{cwd}/{text}") for cwd in cwds]


def resolve_value(value: Value, cwds: Sequence[str], home: str = "") -> tuple[str, ...]:
    """Return the absolute paths that ``value`` may mean from each of ``cwds``. For a pattern, this is the folder above its first
    glob.

    UNKNOWN_PATH stands for a path that is only known when the command runs.
    """
    found: list[str] = []
    for path in spelled(value, cwds, home):
        text = path
        if HOLE in text or text[0] == "~":
            text = UNKNOWN_PATH
        elif value.pattern and (glob := _GLOB.search(value.text)) is not None:
            text = UNKNOWN_PATH if ".." in value.text[glob.start() :] else _folder(path)
        if text not in found:
            found.append(text)
    return tuple(found) or (UNKNOWN_PATH,)


def goes_on(path: str, written: str) -> bool:
    """Return whether an absolute pattern continues below the folders that it matches: ``a/*/b``, ``*/``."""
    glob = _GLOB.search(path)
    return glob is not None and ("/" in path[glob.start() :] or written.endswith("/")) and HOLE not in path


def _folder(path: str) -> str:
    glob = _GLOB.search(path)
    return path if glob is None else path[: path.rfind("/", 0, glob.start())] or "/"


def root_of(value: Value, cwds: Sequence[str], home: str = "") -> bool:
    """Return whether ``value`` names a system root or a home, or everything in one."""
    return any(_is_root(path, value.pattern, home) for path in spelled(value, cwds, home))


def _is_root(path: str, pattern: bool, home: str) -> bool:
    if HOLE in path:
        return False
    if pattern:
        head, _, tail = path.rpartition("/")
        while _WHOLE.fullmatch(tail):
            path = head or "/"
            head, _, tail = path.rpartition("/")
    if (home and is_home(path, home)) or ROOTS.fullmatch(path):
        return True
    return pattern and any(may_match(path, f"/{name}") for name in _ROOT_NAMES) and path.count("/") == 1


def _absolute(path: str) -> str:
    if path[0] != "/":
        return posixpath.normpath(path)
    if "//" not in path and "/." not in path and path[-1] != "/" and path[:6] != "/proc/":
        return path
    path = posixpath.normpath(path)
    path = path[1:] if path.startswith("//") else path
    return _SAME_ROOT.sub("", path) or "/" if path.startswith("/proc/") else path


_SAME_ROOT = Regex(rf"^(?:/proc/(?:self|thread-self|\d+|{HOLE})/(?:task/[^/]+/)?root(?=/|$))+")
"""The root folder of a process, which is ``/`` under another name."""


# what a change or a read means

_TERMINAL = Regex(r"/dev/(?:pts/.+|tty\w*|console|vcsa?\w*)")
TERMINAL_WHY = "uses a terminal that a user may be reading: it could fake or answer a prompt"


def judge_change(
    path: str,
    text: str,
    protected: Sequence[str] = (),
    *,
    mode: Mode = "write",
    home: str | None = None,
    inspect_path: Callable[[str], Seen] | None = None,
) -> list[Finding]:
    """Judge a change of ``path``. ``text`` describes the call to users.

    ``home``: the home of the account that makes the change (None: of this process's account); ``inspect_path`` returns what is at
    a path.
    """
    if is_protected(path, protected):
        return [_own(path, text, "changes toolcrib's own settings or state")]
    rules = [(rule.key, rule.level, rule.why) for rule in path_rules(path, mode, home)]
    known = {rule[0] for rule in rules}
    rules += [
        rule for rule in GitFolders(inspect_path or NoFiles().inspect_path, home or "").rules(path, mode) if rule.key not in known
    ]
    return [
        Finding(key, level, why, visible(text), scope=visible(path), paths=(path,), effect=effect_of(key))
        for key, level, why in rules
    ]


def path_rules(path: str, mode: Mode = "write", home: str | None = None) -> list[PathRule]:
    """Return the rules for ``path``, which is absolute or begins with ``~``; ``system.file`` only if no other rule matches."""
    if not _may_concern(path):
        return []
    named = _from_home(path, posixpath.expanduser("~") if home is None else home)
    found = [rule for rule in PATH_RULES if mode in rule.modes and rule.pattern.search(named)]
    return [rule for rule in found if rule.key != "system.file"] or found


def _may_concern(path: str) -> bool:
    """Return whether a rule may match the path. This quick check excludes most paths."""
    return (
        "/." in path
        or path[:1] in ("~", ".")
        or (path[:1] == "/" and not path.startswith(_PLACES))
        or "/toolcrib-" in path
        or "history" in path
        or "ipython" in path
        or "authorized_keys" in path
        or "LaunchAgents" in path
        or HOLE in path
    )


_PLACES = ("/home/", "/tmp/", "/Users/")  # noqa: S108 - compared, not used
"""Folders whose paths concern a rule only if another check in ``_may_concern`` is true."""


def judge_read(
    path: str, text: str, protected: Sequence[str] = (), without: Sequence[str] = (), *, home: str | None = None
) -> list[Finding]:
    """Judge a read of ``path``: of a process, a terminal, a key, or the folders ``protected`` with toolcrib's keys and state.

    ``home``: see judge_change.

    In these folders, only documents and the sources of plugins may be read. A folder above a protected one may not be read
    either, because a search there would show protected files. It may be read if the search leaves out (``without``) all protected
    folders below it.
    """
    if found := judge_process(path, text):
        return found
    if _TERMINAL.fullmatch(path):
        return [Finding("terminal.device", "ask-once", TERMINAL_WHY, visible(text), scope=visible(path), paths=(path,))]
    below = (own for own in protected if under(own, path) and not any(under(own, out) for out in without))
    if (is_protected(path, protected) and not path.endswith(READABLE)) or any(below):
        return [_own(path, text, "reads toolcrib's own keys or state; name a narrower folder")]
    return [
        Finding(rule.key, rule.level, rule.why, visible(text), scope=visible(path), paths=(path,), effect=effect_of(rule.key))
        for rule in path_rules(path, "read", home)
    ]


def _from_home(path: str, home: str) -> str:
    """Return a path in ``home`` as ``~/...``; any other path unchanged."""
    return f"~{path[len(home) :]}" if home not in ("", "~", "/") and under(path, home) else path


def _own(path: str, text: str, why: str) -> Finding:
    return Finding("self.settings", "block", why, visible(text), scope=visible(path), paths=(path,))
