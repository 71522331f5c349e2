"""The rules table: every row of the modules in this package, indexed by command.

Each module here has a tuple ``RULES`` of rows (see tools/judge/table.py). The first judged command imports them all.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Mapping, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.table import Rule

MODULES = (
    "files",
    "finding",
    "emptying",
    "permissions",
    "disks",
    "formats",
    "system",
    "services",
    "processes",
    "accounts",
    "network",
    "persistence",
    "tool_settings",
    "exfiltration",
    "lookups",
    "uploads",
    "sending",
    "shells",
    "terminals",
    "sockets",
    "servers",
    "environment",
    "homes",
    "self",
    "platforms",
    "git",
    "git_forced",
    "uncommitted",
    "forges",
    "sql",
    "migrations",
    "nosql",
    "queues",
    "containers",
    "machines",
    "kubernetes",
    "cloud",
    "storage",
    "clients",
    "infrastructure",
    "packages",
    "exhaustion",
    "backups",
    "schedulers",
)
"""The names of the modules with rows in this folder. A name without a module is skipped."""

ALL = "*"
"""Rows with this name are checked for every command."""

ENVIRONMENT = "@environment"
"""Rows with this name are checked for every command that sets a variable (see ``environment.assigned``)."""

REDIRECTED = "@redirected"
"""Rows with this name are checked for every command with a redirect."""

BY_PATH = "@by-path"
"""Rows with this name are checked for every command that is called by a path or an address."""

_VERSION = Regex(r"[-.]?\d[\d.]*$")


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """Return all rows."""
    found: list[Rule] = []
    for name in MODULES:
        full = f"{__name__}.{name}"
        if importlib.util.find_spec(full) is not None:
            found.extend(importlib.import_module(full).RULES)
    return tuple(found)


@functools.cache
def filed() -> Mapping[str, Sequence[Rule]]:
    """Return all rows by name."""
    return file_rules(all_rules())


def file_rules(rules: Sequence[Rule]) -> Mapping[str, Sequence[Rule]]:
    """Return ``rules`` by name."""
    by_name: dict[str, list[Rule]] = {}
    for one in rules:
        for name in one.names:
            by_name.setdefault(name, []).append(one)
    return by_name


Indexed = tuple[Sequence[Rule], Mapping[str, frozenset[int]], frozenset[int]]
"""The rows, the indices of rows by the word that they need in a command, and the indices of rows that need no word."""


@functools.lru_cache(maxsize=1_024)
def _indexed(name: str) -> Indexed:
    """Return the table's rows for ``name``, indexed by the words that they need."""
    rows = filed().get(name, ())
    by_word: dict[str, set[int]] = {}
    free: set[int] = set()
    for at, row in enumerate(rows):
        if row.test.needs is None:
            free.add(at)
        for word in row.test.needs or ():
            by_word.setdefault(word, set()).add(at)
    return rows, {word: frozenset(places) for word, places in by_word.items()}, frozenset(free)


def rows_for(name: str, words: Sequence[str]) -> Sequence[Rule]:
    """Return the table's rows for ``name`` that may apply to a command with these words, in the table's order."""
    rows, by_word, free = _indexed(name)
    if not by_word:
        return rows
    places = free.union(*[by_word[word] for word in words if word in by_word])
    return [rows[at] for at in sorted(places)]


@functools.lru_cache(maxsize=4096)
def family(name: str) -> tuple[str, ...]:
    """Return the names under which the table may list a program: ``mkfs.ext4`` -> itself and ``mkfs``; ``python3.12`` -> itself
    and ``python``.
    """
    if name.startswith("@"):
        return (name,)
    lowered = name.lower()
    found = [name]
    if "/" in name:  # a path: not the system's program of that name, but maybe a tool that projects keep in a folder
        own = lowered.rpartition("/")[2]
        if own in _KEPT_IN_FOLDERS or "-" in own:
            found += [own, own.removesuffix(".sh")]
    else:
        head, _, kind = lowered.partition(".")
        found += [lowered, lowered.removesuffix(".exe").removesuffix(".sh"), _VERSION.sub("", lowered)]
        found.append(head if head in _WITH_KINDS and kind.removesuffix("-3g").isalnum() else "")
    return tuple(dict.fromkeys(other for other in found if other))


_WITH_KINDS = frozenset(["mkfs", "fsck", "vim", "nc", "netcat", "mount", "umount", "ksh", "awk"])
"""Programs of several kinds, named by a suffix (``mkfs.ext4``); any other suffix makes another program (``kill.py``)."""

_KEPT_IN_FOLDERS = frozenset(
    [
        "rails",
        "rake",
        "bundle",
        "console",
        "artisan",
        "manage.py",
        "gradlew",
        "mvnw",
        "rimraf",
        "prisma",
        "sequelize",
        "knex",
        "typeorm",
        "alembic",
        "flask",
        "django-admin",
        "terraform",
        "tofu",
        "toolcrib",
        "python",
        "python3",
        "node",
        "php",
        "ruby",
        "perl",
        "pip",
        "npm",
        "npx",
        "catalina.sh",
        "zkcli.sh",
        "wp",
        "drush",
        "spring",
        "magento",
        "phinx",
        "yii",
        "cake",
        "doctrine",
    ]
)
