"""Imports go left only, without circles: toolcrib.contract, tools, toolsets, model_tools, agent, toolcrib (the roof), plugins."""

from __future__ import annotations

import graphlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

pytestmark = pytest.mark.untraced  # it reads the sources, and runs none of them

REACHES_UP_WHEN_CALLED = {
    # `model_tools.load_plugins()`: by the specification the tools' module discovers plugins (003-5), but finding and trusting
    # them is the agent's task, with its configuration. Code that does not call it imports nothing of the agent.
    "model_tools",
}
_NAMED = re.compile(r'"((?:agent|tools|toolcrib|plugins)(?:\.\w+)+)(?::\w+)?"')
"""A string that may name a module, such as one that is imported at first use."""


def inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def test_imports_go_left_only(sources: Sequence[Any], layers: Callable[[str], int | None]) -> None:
    wrong = [
        f"{source.path}:{line} imports {module}"
        for source in sources
        for line, module, at_import in source.imports
        if (layer := layers(module)) is not None
        and layer > source.layer
        and (at_import or source.module not in REACHES_UP_WHEN_CALLED)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_contract_needs_the_standard_library_and_pluggy_alone(sources: Sequence[Any]) -> None:
    """Imports inside functions (pydantic for @tool) do not count."""
    known = {*sys.stdlib_module_names, "pluggy"}
    wrong = [
        f"{source.path}:{line} imports {module}"
        for source in sources
        if source.layer == 0
        for line, module, at_import in source.imports
        if at_import and module.partition(".")[0] not in known and not inside(module, "toolcrib.contract")
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_imports_the_command_line(sources: Sequence[Any]) -> None:
    wrong = [
        f"{source.path}:{line} imports {module}"
        for source in sources
        if not inside(source.module, "agent.cli") and source.module != "toolcrib.__main__"
        for line, module, _ in source.imports
        if inside(module, "agent.cli")
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_configuration_module_reads_and_writes_yaml(sources: Sequence[Any]) -> None:
    wrong = [
        f"{source.path}:{line} imports {module}"
        for source in sources
        if not inside(source.module, "agent.config")
        for line, module, _ in source.imports
        if inside(module, "yaml") or inside(module, "ruamel")
    ]
    assert not wrong, "\n".join(wrong)


def test_environments_know_nothing_of_approval(sources: Sequence[Any]) -> None:
    wrong = [
        f"{source.path}:{line} imports {module}"
        for source in sources
        if inside(source.module, "tools.environments")
        for line, module, _ in source.imports
        if inside(module, "tools.approval") or inside(module, "tools.dispatch")
    ]
    assert not wrong, "\n".join(wrong)


def test_the_judge_needs_the_standard_library_and_the_contract_alone(sources: Sequence[Any]) -> None:
    known = {*sys.stdlib_module_names, "toolcrib"}
    wrong = [
        f"{source.path}:{line} imports {module}"
        for source in sources
        if inside(source.module, "tools.judge")
        for line, module, _ in source.imports
        if module.partition(".")[0] not in known and not inside(module, "tools.judge")
    ]
    assert not wrong, "\n".join(wrong)


def test_examples_import_the_contract_s_public_names_alone(beside: Sequence[Any]) -> None:
    """The examples show what a plugin's author may rely on."""
    wrong = [
        f"{source.path}:{line} imports {module}"
        for source in beside
        if inside(source.module, "examples")
        for line, module, _ in source.imports
        if module.startswith(("toolcrib._", "toolcrib.contract"))
        or module.partition(".")[0] in ("tools", "toolsets", "model_tools", "agent", "plugins")
    ]
    assert not wrong, "\n".join(wrong)


def test_no_import_cycles(sources: Sequence[Any]) -> None:
    """Only imports that run when a module is imported count."""
    try:
        graphlib.TopologicalSorter(graph_of(sources, at_import_only=True)).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


@pytest.mark.parametrize("package", ["tools.judge", "agent.cli"])
def test_a_package_has_no_circle_of_any_imports(sources: Sequence[Any], package: str) -> None:
    """Imports for types and in functions count too: a module must not name a module above it."""
    modules = [source for source in sources if inside(source.module, package)]
    assert len(modules) > 100
    assert circles(graph_of(modules)) == []


LARGEST = 4
"""[house.circle]: the largest number of modules that may import each other in any way."""


def test_circles_of_any_imports_are_small(sources: Sequence[Any]) -> None:
    """Imports for types, in functions and by a name in a string count too."""
    largest = max(circles(graph_of(sources)), key=len, default=[])
    assert len(largest) <= LARGEST, largest


def graph_of(sources: Sequence[Any], *, at_import_only: bool = False) -> dict[str, set[str]]:
    """Return the modules that each module imports. An import of a module counts as that module, not as its package."""
    known = {source.module for source in sources}
    graph: dict[str, set[str]] = {}
    for source in sources:
        later = not at_import_only and source.module not in REACHES_UP_WHEN_CALLED
        imported = [module for _, module, at_import in source.imports if at_import or later]
        found = {module if module in known else module.rpartition(".")[0] for module in imported}
        found.update(_NAMED.findall(source.text) if later else ())
        graph[source.module] = (found & known) - {source.module}
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that all reach each other (strongly connected components, by Tarjan)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []
    for start in graph:
        work = [(start, iter(graph[start]))] if start not in numbers else []
        while work:
            module, rest = work[-1]
            if module not in numbers:
                numbers[module] = lowest[module] = len(numbers)
                path.append(module)
            for target in rest:
                if target not in numbers:
                    work.append((target, iter(graph[target])))
                    break
                if target in path:
                    lowest[module] = min(lowest[module], numbers[target])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[module])
                if lowest[module] == numbers[module]:
                    cut = path.index(module)
                    found += [sorted(path[cut:])] if len(path) - cut > 1 else []
                    del path[cut:]
    return found
