"""Find keys outside the usual folders: behind links, and in settings that builds need."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from toolcrib.contract.paths import with_home
from toolcrib.contract.regex import Regex

_MIXED = (
    *("~/.npmrc", "~/.yarnrc.yml", "~/.config/pip/pip.conf", "~/.pip/pip.conf", "~/.m2/settings.xml", "~/.bundle/config"),
    *("~/.gradle/gradle.properties", "~/.config/composer/auth.json", "~/.nuget/NuGet/NuGet.Config", "~/.condarc"),
)
"""Settings that builds need, although programs store passwords in them too."""
_LOGINS = (
    (Regex(r"(?im)^(.*(?:auth|password|passwd|token|secret)\w*[\"']?\s*[=:][ \t]*).+$"), r"\1"),
    (Regex(r"(?i)(<(?:password|passphrase|token|secret)>)[^<]*"), r"\1"),
    (Regex(r"://[^/\s:@]+:[^/\s@]+@"), "://"),
)
_NAMED = (
    ("~/.ssh/config", Regex(r"(?im)^\s*(?:IdentityFile|CertificateFile)[ \t=]+\"?([^\"\n]+)")),
    ("~/.gitconfig", Regex(r"(?m)store\s+--file[ =]['\"]?([^\s'\"]+)")),
)
_SIZE = 262_144


def keys_elsewhere(masked: Sequence[str]) -> list[str]:
    """Return files with keys: targets of links in the ``masked`` folders, and files named in the settings of ssh and git.

    They are existing absolute paths in the home folder, with links resolved.
    """
    home = os.path.realpath(Path.home())
    found = {os.path.realpath(with_home(path)) for path in (*_linked(masked), *_named())}
    return sorted(path for path in found if path.startswith(f"{home}/") and Path(path).exists())


def _linked(masked: Sequence[str]) -> Iterator[str]:
    for folder in masked:
        with contextlib.suppress(OSError), os.scandir(with_home(folder)) as entries:  # a file, or missing
            yield from (entry.path for entry in entries if entry.is_symlink())


def _named() -> Iterator[str]:
    for path, pattern in _NAMED:
        for name in pattern.findall(_text(path)):
            yield name.strip().replace("%d", "~")


def without_logins() -> Iterator[tuple[str, str]]:
    """Yield the path of each settings file with a password, and its text without the password.

    Hiding the whole file would make package managers use a different index than the user's.
    """
    for path in _MIXED:
        text = blank = _text(path)
        for pattern, by in _LOGINS:
            blank = pattern.sub(by, blank)
        if blank != text:
            yield os.path.realpath(with_home(path)), blank


def _text(path: str) -> str:
    with contextlib.suppress(OSError), with_home(path).open(encoding="utf-8", errors="replace") as file:
        return file.read(_SIZE)
    return ""
