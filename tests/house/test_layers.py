"""toolcrib <- tools <- toolsets <- model_tools <- agent <- plugins: imports go left only, and never round."""

from __future__ import annotations

import graphlib
import sys
from collections.abc import Sequence
from typing import Any

import pytest

pytestmark = pytest.mark.untraced  # it reads the sources, and runs nothing of them

LAYERS = ("toolcrib", "tools", "toolsets", "model_tools", "agent", "plugins")


REACHES_UP_WHEN_CALLED = {
    # The doubles for authors' tests run a call through the real dispatcher, which they import when they are used.
    "toolcrib.testing",
    # `from toolcrib import Agent`: people look for it beside what else they import, and `agent` is a name that other
    # distributions have too. It is imported when somebody asks for that name; see test_the_agent_is_loaded_when_it_is_asked_for.
    "toolcrib",
    # `model_tools.load_plugins()`: the specification discovers plugins beside the tools (003-5), and finding and trusting them is
    # the agent's, with its configuration. Whoever does not call it imports nothing of the agent.
    "model_tools",
}


def inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def test_imports_go_left_only(sources: Sequence[Any]) -> None:
    wrong = [
        f"{source.path}:{line} imports {module}"
        for source in sources
        for line, module, at_import in source.imports
        if (top := module.partition(".")[0]) in LAYERS
        and LAYERS.index(top) > source.layer
        and (at_import or source.module not in REACHES_UP_WHEN_CALLED)
    ]
    assert not wrong, "\n".join(wrong)


LOADED_WITH_ITS_EXTRA = {
    # A child of uvicorn's class, which strict types want at the top of a module; `server_of` imports it when called.
    "toolcrib._web_connection",
}


def test_the_contract_needs_the_standard_library_and_pluggy_alone(sources: Sequence[Any]) -> None:
    """What a function imports when it is called (pydantic for @tool) does not count."""
    known = {*sys.stdlib_module_names, "pluggy", "toolcrib"}
    wrong = [
        f"{source.path}:{line} imports {module}"
        for source in sources
        if source.layer == 0 and source.module not in LOADED_WITH_ITS_EXTRA
        for line, module, at_import in source.imports
        if at_import and module.partition(".")[0] not in known
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_imports_the_command_line(sources: Sequence[Any]) -> None:
    wrong = [
        f"{source.path}:{line} imports {module}"
        for source in sources
        if not inside(source.module, "agent.cli") and source.module != "agent.__main__"
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
    """They show what a plugin's author may rely on."""
    wrong = [
        f"{source.path}:{line} imports {module}"
        for source in beside
        if inside(source.module, "examples")
        for line, module, _ in source.imports
        if module.startswith("toolcrib._") or module.partition(".")[0] in LAYERS[1:]
    ]
    assert not wrong, "\n".join(wrong)


def test_no_import_cycles(sources: Sequence[Any]) -> None:
    """Counted are the imports that run when a module is imported."""
    assert not circle(sources, at_import_only=True)


def test_the_judge_has_no_circle_of_any_imports(sources: Sequence[Any]) -> None:
    """Counted are imports for types and in functions too: what stands above a module it can't name."""
    judge = [source for source in sources if inside(source.module, "tools.judge")]
    assert len(judge) > 100
    assert not circle(judge, at_import_only=False)


def circle(sources: Sequence[Any], *, at_import_only: bool) -> str:
    """Return modules that import each other, as one line; "" where none do."""
    known = {source.module for source in sources}
    graph = {
        source.module: {
            target
            for _, module, at_import in source.imports
            if (at_import or not at_import_only)
            and (target := module if module in known else module.rpartition(".")[0]) in known
            and target != source.module
        }
        for source in sources
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return " <- ".join(error.args[1])
    return ""
