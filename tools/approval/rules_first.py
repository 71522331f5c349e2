"""The rules table, and the plain face that the specification names over it."""

from __future__ import annotations

from collections.abc import Mapping

from tools.approval.rule import Rule
from tools.approval.rules_code import RULES as _CODE
from tools.approval.rules_data import RULES as _DATA
from tools.approval.rules_files import RULES as _FILES
from tools.approval.rules_system import RULES as _SYSTEM

RULES: tuple[Rule, ...] = (*_FILES, *_SYSTEM, *_DATA, *_CODE)

_UNUSED = 0
"""(regex, description). Each is matched, ignoring case, at the start of one simple command's normalised text."""


def _filed() -> tuple[Mapping[str, tuple[Rule, ...]], tuple[Rule, ...]]:
    by_name: dict[str, list[Rule]] = {}
    for rule in RULES:
        for name in rule.names:
            by_name.setdefault(name, []).append(rule)
    return {name: tuple(rules) for name, rules in by_name.items()}, tuple(rule for rule in RULES if not rule.names)


_BY_NAME, _FOR_ALL = _filed()


def rules_for(name: str) -> tuple[Rule, ...]:
    """The rules that a command of this name is held against."""
    own = _BY_NAME.get(name, ())
    return own if name.startswith(("@", "|")) else (*own, *_FOR_ALL)
