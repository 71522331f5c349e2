"""The evaluator of Python source, as the functions know it that stand for Python's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from tools.judge.languages._python_own import OwnCode
from tools.judge.languages._python_values import Obj, Scope, Thing
from tools.judge.languages._tell import Tell


class Evaluator(Protocol):
    tell: Tell
    own: OwnCode
    scope: Scope
    forks: int
    pending: list[Obj]

    def attribute(self, owner: Thing, name: str) -> Thing: ...

    def item(self, owner: Thing, index: Thing) -> Thing: ...

    def call(self, function: Thing, args: list[Thing], named: dict[str, Thing]) -> Thing: ...

    def spread(self, function: Callable[..., Thing], args: Sequence[Thing]) -> Thing: ...

    def turns_of(self, source: Thing) -> list[Thing] | None: ...

    def evaluate(self, source: Thing, want: bool = False) -> Thing: ...

    def module(self, name: str) -> Thing: ...


Effect: TypeAlias = Callable[[Evaluator, list[Thing], dict[str, Thing]], Thing]
"""A function's effect: ``(evaluator, arguments, named ones)`` to what it returns."""
