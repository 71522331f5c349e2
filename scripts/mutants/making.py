"""Make mutants with cosmic-ray's operators, and draw a sample of them."""

from __future__ import annotations

import ast
import difflib
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names

Key = tuple[str, str, str, str]

CLOSE = set(
    """
    Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt
    Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_Mul Pow_Mul LShift_RShift RShift_LShift BitOr_BitAnd BitAnd_BitOr
    USub_UAdd UAdd_USub Delete_Not Delete_USub Delete_Invert
    """.split()
)
"""Replacements of operators that people might make by mistake. cosmic-ray has all of them, and most raise TypeError at once."""


FALSE = {"None", "False", "0", "0.0", '""', "()", "[]", "{}", "set()"}
"""Values that callers can hardly distinguish from None if types are checked."""


@dataclass(frozen=True)
class Mutant:
    """A mutant. ``code`` is the whole file with the change; ``before`` and ``after`` are the lines that differ, as one line each.

    ``lines`` are those of the changed statement, without the body if it has one: one of them runs when the statement runs.
    ``at_import``: the statement runs when its file is imported.
    """

    path: str
    line: int
    lines: frozenset[int]
    at_import: bool
    scope: str
    operator: str
    before: str
    after: str
    code: str = field(repr=False, compare=False)

    @property
    def key(self) -> Key:
        """A key that stays valid when lines above the mutant move."""
        return self.path, self.scope, self.before, self.after


class RemoveStatement(Operator):  # type: ignore[misc]  # cosmic-ray has no types
    """Remove a call, a raise, or an assignment to an attribute or item; return None instead of a value.

    cosmic-ray's own operators change operators, conditions, numbers and decorators, but remove no statement.
    """

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        if node.parent is None or node.parent.type != "simple_stmt" or _is_logging(node):
            return
        is_call = node.type == "atom_expr" and node.children[-1].type == "trailer" and node.children[-1].children[0] == "("
        is_set = node.type == "expr_stmt" and node.children[0].type == "atom_expr"
        returns = node.type == "return_stmt" and node.children[1].get_code().strip() not in FALSE
        if is_call or is_set or returns or node.type == "raise_stmt":
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        prefix = node.get_first_leaf().prefix
        return parso.python.tree.Keyword("return" if node.type == "return_stmt" else "pass", node.start_pos, prefix)

    @classmethod
    def examples(cls) -> tuple[tuple[str, str], ...]:
        return (("f(1)\n", "pass\n"), ("raise E\n", "pass\n"), ("a.b = 1\n", "pass\n"))


def _is_logging(node: Any) -> bool:
    return bool(re.match(r"\s*_?log(ger|ging)?\.", node.get_code(include_prefix=False)))


def _is_close(name: str) -> bool:
    _, _, exchange = name.partition("Operator_")
    return not exchange or exchange in CLOSE


def _operators() -> dict[str, Any]:
    named = {name.partition("/")[2]: get_operator(name) for name in operator_names()}
    made = {name: kind() for name, kind in named.items() if not kind.arguments() and _is_close(name)}
    return {**made, "RemoveStatement": RemoveStatement()}


class _Meaning(ast.NodeTransformer):
    """Remove code that has no effect at run time or that mypy checks: annotations, protocols, frozen and slots."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        """Remove ``*`` and ``/`` between parameters: mypy checks how arguments are passed."""
        node.args, node.posonlyargs, node.kwonlyargs = [*node.posonlyargs, *node.args, *node.kwonlyargs], [], []
        node.defaults, node.kw_defaults = [*node.defaults, *filter(None, node.kw_defaults)], []
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        node.annotation = ast.Constant("")
        return node if node.value is None else self.generic_visit(node)  # type: ignore[return-value]  # no node is replaced

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST | None:
        if not node.decorator_list and ast.unparse(node.body[-1]) == "...":
            return None  # an overload, or an overload without its decorator
        if any("overload" in ast.unparse(decorator) for decorator in node.decorator_list):
            return None
        node.returns = None
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST | None:
        return self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST | None:
        return None if any("Protocol" in ast.unparse(base) for base in node.bases) else self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST | None:
        return None if node.arg in ("frozen", "slots") else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if "TYPE_CHECKING" in ast.unparse(node.test) else self.generic_visit(node)


def _meaning(code: str) -> str | None:
    """Return equal texts for two files that do the same, and None for invalid Python."""
    try:
        return ast.dump(_Meaning().visit(ast.parse(code)))
    except SyntaxError:
        return None


def _scopes(code: str) -> dict[int, str]:
    """Return the innermost function or class of each line."""
    found: dict[int, str] = {}

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = name
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                inner = f"{name}.{child.name}".lstrip(".")
                first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
                found.update(dict.fromkeys(range(first, (child.end_lineno or child.lineno) + 1), inner))
            visit(child, inner)

    visit(ast.parse(code), "")
    return found


def _statement(code: str, line: int) -> frozenset[int]:
    """Return the lines of the innermost statement at this line, without those of its body."""
    found = {line}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.ClassDef):
            first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            if first <= line <= max(end, node.lineno):
                found = set(range(first, max(end, node.lineno) + 1))
    return frozenset(found)


def _runs_at_import(code: str, line: int) -> bool:
    functions = [node for node in ast.walk(ast.parse(code)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return not any(node.body[0].lineno <= line <= (node.end_lineno or 0) for node in functions)


def _difference(before: str, after: str) -> tuple[str, str]:
    """Return the lines that differ, each side as one line."""
    old, new = before.splitlines(), after.splitlines()
    parts = [part for part in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if part[0] != "equal"]
    (_, old_start, _, new_start, _), (_, _, old_end, _, new_end) = parts[0], parts[-1]
    return _as_one_line(old[old_start:old_end]), _as_one_line(new[new_start:new_end])


def _as_one_line(lines: Sequence[str]) -> str:
    return " ".join(" ".join(lines).split())


@dataclass(frozen=True, order=True)
class _Place:
    """A position in the code, and its mutants: (operator, number of the operator's occurrence in the file)."""

    path: str
    start: tuple[int, int]
    family: str
    mutants: tuple[tuple[str, int], ...] = field(compare=False)


def _places(path: str, operators: dict[str, Any]) -> list[_Place]:
    nodes = list(ast_nodes(get_ast(Path(path).read_text(encoding="utf-8"))))
    found: dict[tuple[tuple[int, int], str], list[tuple[str, int]]] = {}
    for name, operator in operators.items():
        starts = [positions[0] for node in nodes for positions in operator.mutation_positions(node)]
        for occurrence, start in enumerate(starts):
            found.setdefault((start, name.partition("_")[0]), []).append((name, occurrence))
    return [_Place(path, start, family, tuple(mutants)) for (start, family), mutants in found.items()]


def _make(place: _Place, name: str, occurrence: int, operators: dict[str, Any]) -> Mutant | None:
    """Return the mutant, or None if it does the same as the original or is invalid Python."""
    original = Path(place.path).read_text(encoding="utf-8")
    code = mutate_code(original, operators[name], occurrence)
    meaning = None if code is None else _meaning(code)
    if meaning is None or meaning == _meaning(original):
        return None
    line = place.start[0]
    scope = _scopes(original).get(line, "-")
    before, after = _difference(original, code)
    lines = _statement(original, line)
    return Mutant(place.path, line, lines, _runs_at_import(original, line), scope, name, before, after, code)


def draw(paths: Sequence[str], size: int, seed: int) -> list[Mutant]:
    """Return at most ``size`` mutants of these files and folders; the same seed draws the same ones of the same code.

    Positions are drawn first, so that a comparison, which has eight mutants, is not drawn eight times as often as a call.
    """
    operators, chance, drawn = _operators(), random.Random(seed), dict[Key, Mutant]()  # noqa: S311 - no secret
    places = sorted(place for path in _files(paths) for place in _places(path, operators))
    chance.shuffle(places)
    for place in places:
        if len(drawn) == size:
            break
        mutant = _make(place, *chance.choice(place.mutants), operators)
        if mutant is not None:
            drawn.setdefault(mutant.key, mutant)
    return sorted(drawn.values(), key=lambda mutant: (mutant.path, mutant.line))


def find(keys: set[Key]) -> list[Mutant]:
    """Return the mutants with these keys, if the code still has them."""
    operators, found = _operators(), dict[Key, Mutant]()
    for path in sorted({key[0] for key in keys if Path(key[0]).exists()}):
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        wanted = [key[2] for key in keys if key[0] == path]
        for place in _places(path, operators):
            text = _as_one_line([lines[place.start[0] - 1]])
            if any(text in before or before in text for before in wanted):
                made = (_make(place, name, occurrence, operators) for name, occurrence in place.mutants)
                found.update({mutant.key: mutant for mutant in made if mutant is not None and mutant.key in keys})
    return list(found.values())


def _files(paths: Sequence[str]) -> list[str]:
    found = [file for path in map(Path, paths) for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    return [file.as_posix() for file in found if "__pycache__" not in file.parts]
