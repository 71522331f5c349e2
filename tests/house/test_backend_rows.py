"""A backend is named only in its row, its folder, its module of agent/backends and its section of the configuration."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from tools.environments.rows import LOCAL, ROWS, BackendRow, row_of

pytestmark = pytest.mark.untraced  # it reads the sources

EXCUSED: Mapping[str, str] = {
    "tools/judge/": "the judge reads commands that run the programs docker and ssh, and the shell's builtin local",
    "tools/contained/outside.py": "the program docker, which can't work in a sandbox",
    "tools/environments/local/plan.py": "the folder of docker's keys, which a sandbox masks",
    "tools/terminal_tool.py": "the exit code 255 of the program ssh",
    "agent/cli/attaching.py": "files of docker's keys, which are not attached",
    "agent/cli/own_command.py": "a command that a person runs on this machine, whatever the backend is",
    "agent/cli/program_checks.py": "the program ssh, for git rather than for the backend",
    "agent/config/_schema.py": "an example of a platform's settings",
    "agent/memory/files.py": "the principal of this machine",
}
"""File, or folder with a slash at its end -> the reason for a backend's name in it."""
ORDINARY = frozenset({"local", "ssh"})
"""Names that are also words and programs: they count only if they are a string's whole text."""
HELP = "_EPILOG"
"""Examples in a command's help, which authors of backends may extend."""


def own_places(name: str) -> tuple[str, ...]:
    """Return the places that may contain a backend's name. A backend without its own opener is opened by the local one."""
    folder = f"tools/environments/{name if ROWS[name].opener else LOCAL}/"
    return (folder, f"agent/backends/{name}.py", "tools/environments/rows.py", "agent/config/_environments.py")


def strings(source: Any) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module with their lines, without docstrings and help."""
    helps = [
        range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for node in source.statements
        if isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == HELP for one in node.targets)
    ]
    for node in source.expressions[0]:
        if not any(node.lineno in lines for lines in helps):
            yield node.lineno, node.value


def named(text: str, names: Sequence[str]) -> list[str]:
    """Return the backends that a string names."""
    return [
        name
        for name in names
        if text == name or (name not in ORDINARY and name in text and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text))
    ]


def test_a_backend_is_named_in_its_own_places_alone(sources: Sequence[Any]) -> None:
    used: set[str] = set()
    wrong: list[str] = []
    for source in sources:
        if not any(f'"{name}"' in source.text or (name not in ORDINARY and name in source.text) for name in ROWS):
            continue
        excuse = next((one for one in EXCUSED if source.path == one or (one.endswith("/") and source.path.startswith(one))), "")
        found = [
            f"{source.path}:{line} names {name}"
            for line, text in strings(source)
            for name in named(text, list(ROWS))
            if not source.path.startswith(own_places(name))
        ]
        used.update([excuse] if found and excuse else [])
        wrong += [] if excuse else found
    assert not wrong, "\n".join(wrong)
    assert used == set(EXCUSED), "an excuse that nothing needs"


def test_only_its_module_of_the_agent_imports_a_backend(sources: Sequence[Any]) -> None:
    """The local backend is exempt: its sandbox is this machine's, with its own commands and checks."""
    wrong = [
        f"{source.path}:{line} imports {module}"
        for source in sources
        for line, module, _ in source.imports
        for name in ROWS
        if name != LOCAL
        if f"{module}.".startswith((f"tools.environments.{name}.", f"agent.backends.{name}."))
        if not source.path.startswith(own_places(name)) and source.path != "agent/backends/local.py"
    ]
    assert not wrong, "\n".join(wrong)


def test_a_row_that_says_nothing_promises_nothing() -> None:
    """A new backend, or one of a plugin, must not count as contained by oversight."""
    for row in (BackendRow(name="new"), row_of("of-a-plugin")):
        promised = (row.is_contained, row.runs_here, row.sees_folders, row.has_mode, row.identities, row.gets)
        assert not any(promised)
