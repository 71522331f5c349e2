"""A page for each file of the judge's rules: what it asks about or refuses, why, and example commands."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING

from agent.reference.page import Page, block, code, doc_of, index, plain

if TYPE_CHECKING:
    from tools.judge.table import Rule

_WORDS = """\
The findings of the judge, by topic. The judge reads a command as a shell would, follows its variables, wrappers and scripts,
and compares each program that would run with these rows. An approval of `ask` may last, `ask-once` asks every time, and
`block` is denied despite any grant. Grants, allow-lists and `gateway.approvers` name these keys. The examples are tests: each
command under *flagged* is flagged by its row, each under *free* by no row at all. `toolcrib explain 'COMMAND'` shows how a
command would be judged here, and who would decide."""


def pages() -> Iterator[Page]:
    """Yield an index and a page for each module of tools/judge/rules that has rows."""
    from tools.judge.rules import MODULES

    yield index("reference/rules/index", "Rules of the judge", _WORDS, MODULES)
    for name in MODULES:
        module = import_module(f"tools.judge.rules.{name}")
        about = doc_of(module).removeprefix("Rows: ").partition("\n")[0].rstrip(".")
        lines = [f"# {name.replace('_', ' ').capitalize()}", "", f"Rules about {plain(about)}.", ""]
        for key, rules in groupby(sorted(module.RULES, key=lambda rule: rule.key), key=lambda rule: rule.key):
            lines += [f"## {code(key)}", "", *(line for rule in rules for line in _lines(rule))]
        yield Page(f"reference/rules/{name}", "\n".join(lines))


def _lines(rule: Rule) -> Iterator[str]:
    names = ", ".join(code(name) for name in rule.names if name[:1] not in "@*")
    yield f"{code(rule.level)}: {plain(rule.why)}." + (f" Programs: {names}." if names else "")
    yield from ("", "Flagged:", "", block("\n".join(rule.yes), "sh"), "")
    if rule.no:
        yield from ("Free:", "", block("\n".join(rule.no), "sh"), "")
