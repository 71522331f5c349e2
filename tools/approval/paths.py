"""Findings about files, the same whether a file tool or a shell command touches them."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tools.approval.findings import Finding, Level, visible


@dataclass(frozen=True, slots=True)
class PathRule:
    """``pattern`` is searched in an absolute, normalised path, or in one that starts with ``~``."""

    key: str
    level: Level
    pattern: re.Pattern[str]
    why: str
    example: str
    counter: str


def _rule(key: str, level: Level, pattern: str, why: str, example: str, counter: str) -> PathRule:
    return PathRule(key, level, re.compile(pattern), why, example, counter)


PATH_RULES: tuple[PathRule, ...] = (
    _rule(
        "self.settings",
        "block",
        r"(?:^|/)\.(?:config/|local/(?:share|state)/)?toolcrib(?:/|$)",
        "changes toolcrib's own settings or state",
        "/home/dev/.config/toolcrib/config.yaml",
        "/home/dev/toolcrib/config.yaml",
    ),
    _rule(
        "device.write",
        "block",
        r"^/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|mapper|dm-|md|loop|mem$|kmem$|port$)",
        "writes a block device or memory",
        "/dev/sda",
        "/dev/null",
    ),
    _rule(
        "persist.start-file",
        "ask-once",
        r"(?:^~|^/root|^/home/[^/]+|^/Users/[^/]+)/\.(?:bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv"
        r"|zprofile|zlogin|kshrc|cshrc|tcshrc|login|inputrc|xinitrc|xprofile|xsessionrc|vimrc|pythonrc|gitconfig|npmrc|pypirc"
        r"|pam_environment|config/(?:fish|autostart|systemd|git)/.*|config/fish)$",
        "changes what runs when a shell, editor or session starts",
        "/home/dev/.bashrc",
        "/home/dev/project/.editorconfig",
    ),
    _rule(
        "persist.ssh",
        "ask-once",
        r"(?:^|/)\.ssh(?:/|$)|(?:^|/)authorized_keys2?$",
        "changes who may log in by ssh, or how",
        "/home/dev/.ssh/authorized_keys",
        "/home/dev/project/ssh.md",
    ),
    _rule(
        "persist.git-hooks",
        "ask-once",
        r"(?:^|/)\.git/(?:hooks(?:/|$)|config$|info/attributes$)",
        "changes what git runs by itself",
        "/home/dev/project/.git/hooks/pre-commit",
        "/home/dev/project/.gitignore",
    ),
    _rule(
        "persist.scheduled",
        "ask-once",
        r"^/etc/(?:cron|anacron|at\.)|^/var/spool/(?:cron|at)(?:/|$)|^(?:/etc|/lib|/usr/lib|/run)/systemd/|/\.config/systemd/"
        r"|^/etc/(?:init\.d|rc\.local|profile\.d|ld\.so\.preload|update-motd\.d)",
        "plants something that starts by itself",
        "/etc/cron.d/job",
        "/home/dev/project/cron.py",
    ),
    _rule(
        "system.accounts",
        "ask-once",
        r"^/etc/(?:passwd|shadow|group|gshadow|sudoers|sudoers\.d|pam\.d|security)(?:-|/|$)",
        "changes users or their rights",
        "/etc/sudoers.d/dev",
        "/home/dev/etc/passwd",
    ),
    _rule(
        "system.file",
        "ask",
        r"^/(?:etc|boot|usr|bin|sbin|lib|lib32|lib64|opt|srv|root|var/(?:lib|www|spool|backups|mail)|proc/sys|sys|efi)(?:/|$)",
        "changes a system file",
        "/etc/hosts",
        "/home/dev/project/etc/hosts",
    ),
    _rule(
        "system.log",
        "ask",
        r"^/var/log(?:/|$)|(?:^|/)\.(?:bash|zsh|python|mysql|psql)_history$",
        "erases or changes logs or history",
        "/var/log/syslog",
        "/home/dev/project/build.log",
    ),
)

READABLE = (".md", ".py", ".txt")


def under(path: str, folder: str) -> bool:
    """Whether the absolute ``path`` is ``folder`` or below it; both are compared by name, links unresolved."""
    path, folder = posixpath.normpath(path), posixpath.normpath(folder)
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")


def is_protected(path: str, protected: Sequence[str]) -> bool:
    return any(under(path, folder) for folder in protected)


def may_match(pattern: str, folder: str) -> bool:
    """Whether the absolute shell ``pattern`` may name ``folder`` or something in it."""
    words, parts = pattern.split("/"), folder.split("/")
    return len(words) >= len(parts) and all(
        fnmatch.fnmatchcase(part, word) and (word.startswith(".") or not part.startswith("."))
        for word, part in zip(words, parts, strict=False)
    )


def judge_change(path: str, text: str, protected: Sequence[str] = ()) -> list[Finding]:
    """What writing or deleting ``path`` means; ``text`` is what does it."""
    if is_protected(path, protected):
        return [_own(path, text, "changes toolcrib's own settings or state")]
    named = _from_home(path)
    found = [rule for rule in PATH_RULES if rule.pattern.search(named)]
    special = [rule for rule in found if rule.key != "system.file"] or found
    return [Finding(rule.key, rule.level, rule.why, visible(text), scope=visible(path), paths=(path,)) for rule in special]


_PROCESS = re.compile(r"/proc/[^/\s]+/(?:task/[^/\s]+/)?(?:env[\w*?\[\]]*|mem)(?![\w/])")


def judge_process(path: str, text: str) -> list[Finding]:
    """Another process's variables and memory: keys stand there, in a form that nothing takes out of a result."""
    if _PROCESS.search(path) is None:
        return []
    why = "reads a process's variables or memory, where keys stand"
    return [Finding("secret.process", "ask-once", why, visible(text), scope=visible(path), paths=(path,))]


def judge_read(path: str, text: str, protected: Sequence[str] = ()) -> list[Finding]:
    """What reading ``path`` means: toolcrib's keys and state stay closed, its documents and plugins' sources don't.

    A folder above them is closed too, since reading it (a search) would show them.
    """
    if found := judge_process(path, text):
        return found
    if (is_protected(path, protected) and not path.endswith(READABLE)) or any(under(own, path) for own in protected):
        return [_own(path, text, "reads toolcrib's own keys or state; name a narrower folder")]
    return []


def _from_home(path: str) -> str:
    """``~/...`` for what lies in the person's own home, wherever that is; any other path as it is."""
    home = posixpath.expanduser("~")
    return f"~{path[len(home) :]}" if home not in ("~", "/") and under(path, home) else path


def _own(path: str, text: str, why: str) -> Finding:
    return Finding("self.settings", "block", why, visible(text), scope=visible(path), paths=(path,))
