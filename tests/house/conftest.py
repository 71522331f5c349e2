"""The project's sources, read once for the tests of rules."""

from __future__ import annotations

import ast
import gc
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pytest

LAYERS = ("toolcrib.contract", "tools", "toolsets", "model_tools", "agent", "toolcrib", "plugins")
"""Layers, the lowest first. ``toolcrib`` is the roof: the API for plugin authors, above all layers but the plugins."""


def layer_of(module: str) -> int | None:
    """Return the number of a module's layer, or None for foreign modules."""
    parts = module.split(".")
    return next((LAYERS.index(name) for end in (2, 1) if (name := ".".join(parts[:end])) in LAYERS), None)


@dataclass(frozen=True)
class Source:
    """A Python file. ``imports`` holds (line, module, whether it runs when the file is imported), ``statements`` the module and
    all its statements and handlers, ten times fewer than its nodes.
    """

    path: str
    module: str
    text: str
    tree: ast.Module
    imports: list[tuple[int, str, bool]] = field(default_factory=list)

    @cached_property
    def statements(self) -> list[ast.AST]:
        return list(_statements(self.tree))

    @cached_property
    def expressions(self) -> tuple[list[ast.Constant], list[ast.Compare]]:
        """The strings without docstrings, and the comparisons: visiting all nodes takes longer than anything else here."""
        docs = {id(node.value) for node in self.statements if isinstance(node, ast.Expr)}
        strings, compared = [], []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant):
                if isinstance(node.value, str) and id(node) not in docs:
                    strings.append(node)
            elif isinstance(node, ast.Compare):
                compared.append(node)
        return strings, compared

    @property
    def layer(self) -> int:
        found = layer_of(self.module)
        assert found is not None
        return found


def _read(path: Path, root: Path) -> Source:
    relative = path.relative_to(root)
    module = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
    text = path.read_text(encoding="utf-8")
    source = Source(str(relative), module, text, ast.parse(text, str(relative)))
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    source.imports.extend(_imports(source.tree, package, at_import=True))
    return source


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        for child in getattr(node, name, ()):
            yield from _statements(child)


def _imports(node: ast.AST, package: str, *, at_import: bool) -> Iterator[tuple[int, str, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((child.lineno, name.name, at_import) for name in child.names)
        elif isinstance(child, ast.ImportFrom):
            base = child.module or ""
            if child.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - child.level + 1], *([base] if base else [])])
            yield from ((child.lineno, f"{base}.{name.name}", at_import) for name in child.names)
        elif isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):  # expressions contain no imports
            later = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            typing_only = isinstance(child, ast.If) and at_import and "TYPE_CHECKING" in ast.unparse(child.test)
            yield from _imports(child, package, at_import=at_import and not later and not typing_only)


def _read_all(root: Path, tops: tuple[str, ...]) -> list[Source]:
    files: list[Path] = []
    for top in tops:
        single = root / f"{top}.py"
        files.extend([single] if single.exists() else sorted((root / top).rglob("*.py")))
    gc.disable()  # the trees are a million objects, which stay: the garbage collector would visit them again and again
    try:
        return [_read(path, root) for path in files if "__pycache__" not in path.parts]
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="session")
def layers() -> Callable[[str], int | None]:
    """Return the function that returns a module's layer."""
    return layer_of


@pytest.fixture(scope="session")
def sources(root: Path) -> list[Source]:
    """Return the files of the product."""
    return _read_all(root, ("toolcrib", "tools", "toolsets", "model_tools", "agent", "plugins"))


@pytest.fixture(scope="session")
def beside(root: Path) -> list[Source]:
    """Return the files of benchmarks and examples."""
    return _read_all(root, ("benchmarks", "examples"))


@pytest.fixture(scope="session")
def tracked(root: Path) -> list[Path]:
    """Return every text file in the repository, also one that is not committed yet."""
    if shutil.which("git") is None or not (root / ".git").exists():
        pytest.skip("needs git and a clone")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root, capture_output=True, check=True
    ).stdout
    return [path for name in sorted(set(listed.decode().split("\0"))) if name and (path := root / name).is_file()]
