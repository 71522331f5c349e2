"""Lists the interfaces that other programs rely on, one promise per line. As a program it rewrites the lists.

``python.txt``: public modules, names, parameters and attributes. ``hooks.txt``: hooks and their arguments.
``configuration.txt``: keys and defaults. ``commands.txt``: commands and options. ``columns.txt``: tables of the store and their
columns.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import importlib
import inspect
import json
import sqlite3
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
MODULES = (
    "toolcrib", "toolcrib.testing", "toolcrib.platforms", "toolcrib.chat", "toolcrib.backends",
    "agent.run", "agent.events", "agent.models", "agent.config", "agent.plugins",
    "agent.conversation.limits", "agent.conversation.manager", "agent.desk",
    "model_tools", "toolsets", "tools.registry",
)  # fmt: skip
"""Modules that the documentation and the examples import."""
_NEVER_CALLED = {"Crib", "Session", "ToolCallContext"}
"""Classes that programs never call; toolcrib gives them the objects."""


def python() -> Iterator[str]:
    """Yield a line for each public name, with its parameters, and for each attribute of a public class."""
    for name in MODULES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # an old name
            module = importlib.import_module(name)
        for public in sorted(_public(module)):
            value = getattr(module, public)
            yield f"{name}.{public}{_shape(value)}"
            if inspect.isclass(value):
                yield from sorted(_attributes(f"{name}.{public}", value))


def _public(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return list(module.__all__)
    defined = {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    return [name for name in defined if not name.startswith("_")]


def _shape(value: object) -> str:
    if inspect.isclass(value) and (issubclass(value, (enum.Enum, BaseException)) or value.__name__ in _NEVER_CALLED):
        return ""
    if getattr(value, "_is_protocol", False):
        return ""
    if inspect.isclass(value) and "_field_defaults" in vars(value):  # a named tuple, which gets its __new__ at first use
        names, defaults = vars(value)["_fields"], vars(value)["_field_defaults"]
        return f"({', '.join(name + '=...' * (name in defaults) for name in names)})"
    if inspect.isclass(value) and hasattr(value, "__dataclass_fields__"):
        return f"({', '.join(_field(one) for one in dataclasses.fields(value) if one.init)})"
    try:
        parameters = list(inspect.signature(value).parameters.values())  # type: ignore[arg-type]  # raises if it is not callable
    except (TypeError, ValueError):
        return ""
    shown = list(map(_parameter, parameters))
    named = next((number for number, one in enumerate(parameters) if one.kind is one.KEYWORD_ONLY), None)
    if named is not None and not any(one.kind is one.VAR_POSITIONAL for one in parameters):
        shown.insert(named, "*")
    return f"({', '.join(shown)})"


def _parameter(parameter: inspect.Parameter) -> str:
    star = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    return f"{star}{parameter.name}{'' if parameter.default is parameter.empty else '=...'}"


def _field(field: dataclasses.Field[Any]) -> str:
    is_optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    return f"{field.name}{'=...' if is_optional else ''}"


def _attributes(path: str, cls: type) -> Iterator[str]:
    for name in dir(cls):
        if name.startswith("_") or (issubclass(cls, (str, int, tuple, dict)) and hasattr(str, name)):
            continue
        value = inspect.getattr_static(cls, name)
        function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        yield f"{path}.{name}{_shape(function) if inspect.isfunction(function) else ''}"


def hooks() -> Iterator[str]:
    """Yield a line for each hook."""
    from tools.dispatch.hooks import new_manager

    for name, caller in sorted(vars(new_manager().hook).items()):
        if caller.spec is not None:
            yield f"{name}({', '.join(caller.spec.argnames)})"


def configuration() -> Iterator[str]:
    """Yield a line for each key."""
    from agent.config import settings

    for setting in settings():
        yield f"{setting.key} = {json.dumps(setting.default, default=str)}" if setting.has_default else setting.key


def commands() -> Iterator[str]:
    """Yield a line for each option and argument of each command."""
    from agent.cli.app import built_in, parser_of

    for name, module in sorted(built_in().items()):
        yield from _of_parser(f"toolcrib {name}", parser_of(name, importlib.import_module(module)))


def _of_parser(path: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield path
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in sorted(action.choices.items()):
                yield from _of_parser(f"{path} {name}", inner)
        else:
            choices = "" if action.choices is None else " {" + ",".join(map(str, action.choices)) + "}"
            names = " ".join(action.option_strings) or action.dest
            yield f"{path} {names}{'' if action.nargs == 0 else ' VALUE'}{choices}"


def columns() -> Iterator[str]:
    """Yield a line for each column of the store."""
    from agent.store._schema import FOLDER, statements

    store = sqlite3.connect(":memory:")
    for file in sorted(FOLDER.glob("*.sql")):
        for statement in statements(file.read_text("utf-8")):
            store.execute(statement)
    tables = store.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%' ORDER BY name")
    for (table,) in tables.fetchall():
        for _, column, kind, *_ in store.execute(f"PRAGMA table_info({table})").fetchall():
            yield f"{table}.{column} {kind}"
    store.close()


LISTS: dict[str, Callable[[], Iterator[str]]] = {one.__name__: one for one in (python, hooks, configuration, commands, columns)}


def kept(name: str) -> list[str]:
    """Return the lines of a stored list."""
    return (HERE / f"{name}.txt").read_text("utf-8").splitlines()


def gone(name: str, now: Iterable[str]) -> list[str]:
    """Return the stored lines of a list that no line of ``now`` keeps. A function may get more optional parameters, keyword-only
    ones or at its end: they do not change the meaning of existing calls. An option may get more choices.
    """
    by_name = {_name(line): line for line in now}
    return [line for line in kept(name) if not _keeps(by_name.get(_name(line), ""), line)]


def _name(line: str) -> str:
    return line.partition("(")[0].partition(" {")[0]


def _keeps(now: str, before: str) -> bool:
    if before.endswith("}") and now.endswith("}"):
        return set(_choices(before)) <= set(_choices(now))
    if now == before or not before.endswith(")"):
        return now == before
    old, new = (line.partition("(")[2].removesuffix(")").split(", ") for line in (before, now))
    added = [one for one in new if one not in old]
    if not all(one.endswith("=...") for one in added) or [one for one in new if one in old] != old:
        return False
    last = max((new.index(one) for one in old if not one.startswith("*")), default=-1)
    return "*" in old or all(new.index(one) > last for one in added)


def _choices(line: str) -> Sequence[str]:
    return line.partition(" {")[2].removesuffix("}").split(",")


def main() -> Any:
    """Write all lists. Print lines that have vanished, and return 1 if there are any."""
    lost: list[str] = []
    for name, lines in LISTS.items():
        now = list(lines())
        if (HERE / f"{name}.txt").exists():
            lost += gone(name, now)
        (HERE / f"{name}.txt").write_text("".join(f"{line}\n" for line in now), "utf-8")
    print("\n".join(["No longer there:", *lost]) if lost else "Nothing is missing.")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
