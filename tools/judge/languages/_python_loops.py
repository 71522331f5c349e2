"""Python's loops without an end: what such a one leaves behind."""

from __future__ import annotations

import ast
from collections.abc import Sequence

_KEEPS = frozenset({"append", "extend", "insert", "appendleft"})
_MAKES = frozenset({"bytes", "bytearray", "str", "list", "dict", "tuple", "set", "range", "len", "object"})


def hoards(body: Sequence[ast.stmt]) -> bool:
    """Return whether a loop's rounds keep more and more in memory, and call nothing that could wait, fail or end them."""
    keeps = False
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Raise | ast.Yield | ast.Await | ast.If | ast.Try):
                return False
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name not in _KEEPS and name not in _MAKES:
                    return False
                keeps = keeps or name in _KEEPS
            elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Mult | ast.Add):
                keeps = keeps or not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, int | float))
    return keeps
