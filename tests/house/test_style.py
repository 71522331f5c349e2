"""Sizes, excepts, exemptions from lint, and statements that run at import."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.untraced  # it reads the sources, and runs none of them

MAX_FILE, MAX_FUNCTION = 400, 60
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

RUNS_AT_IMPORT = {
    # Tools register themselves (003-1).
    "": {"registry.register", "registry.add"},
    # The built-in tools are found, and the registry gets its dispatcher and its schema checker.
    "model_tools": {"_sources.begin", "registry.attach"},
    "agent.__main__": {"main"},
    # Old names of modules warn their importers.
    **{name: {"warnings.warn"} for name in ("agent.run", "agent.models", "agent.plugins")},
    "benchmarks.__main__": {"main"},
}


def test_files_are_short(sources: Sequence[Any], beside: Sequence[Any]) -> None:
    counted = [(source.path, len(source.text.splitlines())) for source in [*sources, *beside]]
    assert [f"{path}: {lines} lines" for path, lines in counted if lines > MAX_FILE] == []


def test_functions_are_short(sources: Sequence[Any], beside: Sequence[Any]) -> None:
    counted = [
        (f"{source.path}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1)
        for source in [*sources, *beside]
        for node in source.statements
        if isinstance(node, FUNCTIONS) and node.end_lineno is not None
    ]
    assert [f"{where}: {lines} lines" for where, lines in counted if lines > MAX_FUNCTION] == []


def test_nothing_is_swallowed(sources: Sequence[Any], beside: Sequence[Any]) -> None:
    wrong = [
        f"{source.path}:{node.lineno}"
        for source in [*sources, *beside]
        for node in source.statements
        if isinstance(node, ast.ExceptHandler) and _is_broad(node.type) and all(_does_nothing(line) for line in node.body)
    ]
    assert not wrong, f"an except that takes everything and does nothing: {wrong}"


def _is_broad(caught: ast.expr | None) -> bool:
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(name is None or ast.unparse(name) in ("Exception", "BaseException") for name in names)


def _does_nothing(line: ast.stmt) -> bool:
    return isinstance(line, ast.Pass) or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))


MARK = re.compile(r"(noqa|type:\s*ignore)(?:(: [A-Z0-9, ]+)|(\[[a-z0-9, -]+\]))?")


MARKED = re.compile(r"#.*(?:noqa|type:\s*ignore)")


def test_every_exception_from_lint_names_its_rule_and_its_reason(root: Path) -> None:
    wrong = []
    for path in _python_files(root):
        text = path.read_text(encoding="utf-8")
        if not MARKED.search(text):  # tokenizing a file takes a thousand times as long
            continue
        for line, comment in _comments(text):
            marks = [mark for mark in MARK.finditer(comment) if re.match(r"\W*$", comment[: mark.start()][-2:])]
            without_rule = [mark for mark in marks if not (mark[2] or mark[3])]
            if marks and (without_rule or not re.search(r"[A-Za-z]{3}", MARK.sub("", comment))):
                wrong.append(f"{path.relative_to(root)}:{line} {comment}")
    assert not wrong, "write `noqa: RULE - why` or `type: ignore[rule]  # why`:\n" + "\n".join(wrong)


def _python_files(root: Path) -> Iterator[Path]:
    for top in ("toolcrib", "tools", "agent", "plugins", "benchmarks", "examples", "tests"):
        yield from sorted((root / top).rglob("*.py"))
    yield from sorted(root.glob("*.py"))


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_importing_a_module_only_defines(sources: Sequence[Any], beside: Sequence[Any]) -> None:
    """Imports, definitions and assignments are allowed; a bare call only if RUNS_AT_IMPORT names it.

    test_start checks the effects of assignments.
    """
    wrong = [
        f"{source.path}:{statement.lineno} {ast.unparse(statement).splitlines()[0]}"
        for source in [*sources, *beside]
        for statement in _running(source.tree.body, RUNS_AT_IMPORT[""] | RUNS_AT_IMPORT.get(source.module, set()))
    ]
    assert not wrong, "\n".join(wrong)


DEFINES = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete, ast.Assert, *FUNCTIONS)


def _running(body: Sequence[ast.stmt], allowed: set[str]) -> Iterator[ast.stmt]:
    for statement in body:
        match statement:
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.Expr(value=ast.Call(func=called)) if ast.unparse(called) in allowed:
                continue
            # if TYPE_CHECKING, sys.version_info, __name__ == "__main__"
            case ast.If(body=inner, orelse=other, test=test):
                guard = '__name__ == "__main__"' in ast.unparse(test).replace("'", '"')
                yield from [] if guard else _running([*inner, *other], allowed)
            # try: import this, except ImportError: that
            case ast.Try(body=inner, handlers=handlers, orelse=other):
                yield from _running([*inner, *other, *(line for handler in handlers for line in handler.body)], allowed)
            case _ if isinstance(statement, DEFINES):
                continue
            case _:
                yield statement


def test_class_names_are_unique(sources: Sequence[Any]) -> None:
    """One name for one thing: a reader finds a public class by its name. Private classes belong to their module."""
    places: dict[str, list[str]] = {}
    for source in sources:
        for node in source.statements:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(f"{source.path}:{node.lineno}")
    assert {name: at for name, at in places.items() if len(at) > 1} == {}


MAX_VAGUE = 0.03
NO_NOUN = re.compile(r"(?:What|Whether|Those|That|Its|Which|Where|How|The same|One)\b")


def test_docstrings_begin_with_a_verb_or_a_noun(sources: Sequence[Any]) -> None:
    """At most 3 % begin with a pronoun: "Return the exit code", not "Its exit code"; "Names of ...", not "What ..."."""
    written = [(source.path, line, text) for source in sources for line, text in _docstrings(source.statements)]
    vague = [f"{path}:{line} {text.splitlines()[0]}" for path, line, text in written if NO_NOUN.match(text)]
    share = len(vague) / len(written)
    assert share <= MAX_VAGUE, f"{share:.1%} of {len(written)} docstrings begin without their noun:\n" + "\n".join(vague)


def _docstrings(statements: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of modules, classes and functions, and those below attributes."""
    for node in statements:
        for line in getattr(node, "body", ()):
            match line:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield line.lineno, text.lstrip()
