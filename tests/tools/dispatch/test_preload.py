"""The modules that decide about calls are in memory before the first call runs, so that changed files have no effect on them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.dispatch.preload import PACKAGES

AFTER = """
import json, sys
import model_tools
before = "tools.judge.languages.perl" in sys.modules
model_tools.handle_function_call({name!r}, {args!r}, task_id="t")
print(json.dumps([before, sorted(sys.modules)]))
model_tools.end_task("t")
"""
DERIVES = {"pydantic", "docstring_parser"}
"""Packages that are needed only while a tool is declared."""


def loaded_after(root: Path, folder: Path, name: str, args: dict[str, str]) -> set[str]:
    code = AFTER.format(name=name, args=args)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env={"PYTHONPATH": str(root), "HOME": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    before, modules = ast.literal_eval(done.stdout.replace("false", "False").replace("true", "True"))
    assert not before  # it does not delay the start
    return set(modules)


def sources(root: Path) -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        for path in (root / package.replace(".", "/")).rglob("*.py"):
            name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            yield name, path


def imported_late(path: Path) -> Iterator[str]:
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    yield from (alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module:
                    yield node.module


def test_the_first_call_that_acts_finds_all_of_it_in_memory(root: Path, tmp_path: Path) -> None:
    loaded = loaded_after(root, tmp_path, "write_file", {"path": "x.txt", "content": "x"})
    assert (tmp_path / "x.txt").exists()
    wanted = {name for name, _ in sources(root)}
    assert len(wanted) > 150
    assert not wanted - loaded
    late = {module for _, path in sources(root) for module in imported_late(path)}
    late = {module for module in late if not module.startswith("agent") and module.partition(".")[0] not in DERIVES}
    assert late - loaded == set()


def test_a_call_that_only_looks_does_not_wait_for_it(root: Path, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("x")
    assert "tools.judge.languages.perl" not in loaded_after(root, tmp_path, "read_file", {"path": "x.txt"})
