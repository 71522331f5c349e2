"""Python's operators, on what is known and on alternatives."""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Sequence

from tools.judge.languages import _python_pure as pure
from tools.judge.languages._python_values import Either, PathThing, Thing, Unknown, either, options, taint_of, text
from tools.judge.meaning.value import Taint, Value

MAX_CALLS_TOGETHER = 16

_OPERATORS: dict[type[ast.operator], Callable[[Thing, Thing], Thing]] = {
    ast.Sub: operator.sub,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.BitXor: operator.xor,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.RShift: operator.rshift,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Thing, Thing], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FAULTS = (ValueError, TypeError, IndexError, KeyError, ZeroDivisionError, OverflowError, AttributeError, ArithmeticError)


class Operators:
    """Operators; the rest of the expressions is added by Expressions."""

    steps: int

    def expr(self, node: ast.expr) -> Thing:
        raise NotImplementedError

    def spread(self, function: Callable[..., Thing], args: Sequence[Thing]) -> Thing:
        """``function`` of each combination of what ``args`` may be."""
        if not any(isinstance(arg, Either) for arg in args):
            return function(*args)
        combinations = itertools.islice(itertools.product(*map(options, args)), MAX_CALLS_TOGETHER)
        return either([function(*given) for given in combinations])

    # -- operators -----------------------------------------------------------------------------------------------

    def _binary(self, node: ast.BinOp) -> Thing:
        chain: list[ast.BinOp] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp):
            chain.append(left)
            left = left.left
        thing = self.expr(left)
        for one in reversed(chain):
            self.steps -= 1
            thing = self.operate(one.op, thing, self.expr(one.right))
        return thing

    def operate(self, op: ast.operator, left: Thing, right: Thing) -> Thing:
        return self.spread(lambda a, b: self._operate(op, a, b), [left, right])

    def _operate(self, op: ast.operator, left: Thing, right: Thing) -> Thing:
        if isinstance(left, PathThing) or (isinstance(right, PathThing) and isinstance(op, ast.Div)):
            return PathThing(pure.path_join([text(left), text(right)]))
        if isinstance(op, ast.Add):
            found = pure.add(left, right)
        elif isinstance(op, ast.Mod) and isinstance(left, Value):
            found = pure.percent(left, right)
        elif isinstance(op, ast.Mult):
            found = pure.repeat(left, right)
        else:
            found = self._arithmetic(op, left, right)
        taint = taint_of(left) | taint_of(right)
        return Unknown(taint | Taint.UNKNOWN) if found is NotImplemented else found

    def _arithmetic(self, op: ast.operator, left: Thing, right: Thing) -> Thing:
        if isinstance(left, int | float) and isinstance(right, int | float):
            try:
                if isinstance(op, ast.Mod):
                    return left % right
                if isinstance(op, ast.Pow) and abs(left) <= 65_536 and 0 <= right <= 64:
                    return left**right
                if isinstance(op, ast.LShift) and isinstance(left, int) and isinstance(right, int) and 0 <= right <= 512:
                    return left << right
                function = _OPERATORS.get(type(op))
                return function(left, right) if function is not None else NotImplemented
            except _FAULTS:
                return NotImplemented
        if isinstance(op, ast.BitOr) and isinstance(left, dict) and isinstance(right, dict):
            return {**left, **right}
        return NotImplemented

    def _unary(self, node: ast.UnaryOp) -> Thing:
        thing = self.expr(node.operand)
        if isinstance(node.op, ast.Not):
            truth = pure.truth(thing)
            return Unknown() if truth is None else not truth
        if isinstance(thing, int | float):
            if isinstance(node.op, ast.USub):
                return -thing
            return ~thing if isinstance(node.op, ast.Invert) and isinstance(thing, int) else thing
        return Unknown()

    def _boolean(self, node: ast.BoolOp) -> Thing:
        found: list[Thing] = []
        stop = isinstance(node.op, ast.Or)
        for value in node.values:
            thing = self.expr(value)
            truth = pure.truth(thing)
            if truth is stop:
                found.append(thing)
                break
            if truth is None or value is node.values[-1]:
                found.append(thing)
        return either(found) if len(found) != 1 else found[0]

    def _compare(self, node: ast.Compare) -> Thing:
        left = self.expr(node.left)
        rights = [self.expr(one) for one in node.comparators]
        if len(rights) != 1:
            return Unknown(Taint.NONE)
        op, right = node.ops[0], rights[0]
        if isinstance(op, ast.Is | ast.IsNot) and (left is None or isinstance(left, Value)) and right is None:
            return (left is None) == isinstance(op, ast.Is)
        if isinstance(op, ast.In | ast.NotIn):
            inside = pure.contains(right, left)
            return Unknown(Taint.NONE) if inside is None else inside == isinstance(op, ast.In)
        function = _COMPARE.get(type(op))
        one, other = pure.plain(left), pure.plain(right)
        if function is None or one is None or other is None:
            return Unknown(Taint.NONE)
        try:
            return bool(function(one, other))
        except _FAULTS:
            return Unknown(Taint.NONE)

    def _choice(self, node: ast.IfExp) -> Thing:
        truth = pure.truth(self.expr(node.test))
        if truth is not None:
            return self.expr(node.body if truth else node.orelse)
        return either([self.expr(node.body), self.expr(node.orelse)])
