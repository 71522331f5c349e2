"""Programs with subcommands: tests for the words after ``push`` in ``git -C x push -f``."""

from __future__ import annotations

from collections.abc import Callable

from tools.judge.meaning.value import HOLE, Value
from tools.judge.options import below
from tools.judge.table import ANY, FED, ActView, Test


class Program:
    """A program with subcommands. ``valued``: its options that take the next word and may come before the last subcommand.

    ``git = Program("-C -c")``; ``git("push", opt("-f"))`` is a Test that applies ``opt`` only to the words after ``push``.
    Alternatives for one word are joined by ``|``: ``docker("container rm|remove")``.
    """

    __slots__ = ("_valued",)

    def __init__(self, valued: str = "") -> None:
        self._valued = frozenset(valued.split())

    def __call__(self, path: str, test: Test = ANY) -> Test:
        wanted = _split(path)

        def ask(view: ActView) -> bool:
            below = self._below(view, wanted)
            return below is not None and test(below)

        return Test(ask, wanted[-1])

    def at(self, path: str, name: Callable[[ActView], str]) -> Callable[[ActView], str]:
        """Return a function for ``at=``: the result of ``name`` for the words after the subcommand; "" for another subcommand."""
        wanted = _split(path)

        def at(view: ActView) -> str:
            below = self._below(view, wanted)
            return "" if below is None else name(below)

        return at

    def _below(self, view: ActView, wanted: list[frozenset[str]]) -> ActView | None:
        words = view.words
        if wanted[-1].isdisjoint(words):
            return None
        places = iter(view.read(self._valued).operands)
        at, path = 0, view.path
        for allowed in wanted:
            at = next((place for place in places if words[place - 1] != HOLE or HOLE in allowed), 0)
            if not at or words[at - 1] not in allowed:
                return None
            path = below(path, words[at - 1])
        return view.below(at, path)


def anywhere(words: str, unless: str = "") -> Test:
    """Test for an operand that is one of ``words``, with none of ``unless`` before it.

    Use it for programs whose verb follows any number of nouns (``gcloud sql instances delete x``). Blanks separate alternatives.
    """
    wanted, read = frozenset(words.split()), frozenset(unless.split())

    def ask(view: ActView) -> bool:
        for value in view.operands():
            if value.text in wanted:
                return True
            if value.text in read:
                return False
        return False

    return Test(ask, wanted)


def computed(value: Value) -> bool:
    """Return whether the value is another command's output, or otherwise unknown.

    False for an unknown variable alone (``$x``), because it counts as a single value.
    """
    return value.text == HOLE and (not value.shown or "(" in value.shown or "`" in value.shown)


MANY = Test(lambda view: view.act.fed or any(computed(value) or value.pattern for value in view.operands())) | FED
"""Test for operands that may be many: the output of another command, or a pattern."""


def several(least: int) -> Test:
    """Test for at least ``least`` operands, or for operands that may be many (``MANY``)."""
    return Test(lambda view: len(view.operands()) >= least) | MANY


def joined(view: ActView) -> str:
    """Return the operands with ``/`` between them, for ``at=``."""
    return "/".join(value.text for value in view.operands())


def _split(path: str) -> list[frozenset[str]]:
    return [frozenset(one.split("|")) for one in path.split()]
