"""The tables have the rows of every module, and no two modules have rows for one command."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import tools.judge.languages
import tools.judge.meaning
from tools.judge.languages import LANGUAGES
from tools.judge.meaning import tables
from tools.judge.meaning.tables import Table

TABLES = [table for table in vars(tables).values() if isinstance(table, Table)]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_each_module_that_has_rows_is_listed(table: Table[object]) -> None:
    """Rows in a module that is not listed would have no effect, and no other test would fail."""
    having = set()
    for module in pkgutil.iter_modules(tools.judge.meaning.__path__):
        rows = getattr(importlib.import_module(f"tools.judge.meaning.{module.name}"), table.name, None)
        if rows is not None and not isinstance(rows, Table):
            having.add(module.name)
    assert having == set(table.modules)
    assert table.rows


def test_a_command_that_two_modules_have_is_an_error() -> None:
    with pytest.raises(ValueError, match="another module has too: declare"):
        Table[object]("BUILTINS", "declare", "builtins", "declare").rows  # noqa: B018 - the table loads at its first use


def test_every_language_has_its_module() -> None:
    found = {module.name for module in pkgutil.iter_modules(tools.judge.languages.__path__) if not module.name.startswith("_")}
    assert found == set(LANGUAGES.values())
