"""A call of a builtin, with all that the builtin's function needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tools.approval.meaning.act import RedirectTarget
from tools.approval.meaning.shellstate import State
from tools.approval.meaning.value import Value
from tools.approval.shell.tree import Simple

if TYPE_CHECKING:
    from tools.approval.meaning.run import Interpreter


class BuiltinCall(NamedTuple):
    it: Interpreter
    state: State
    argv: Sequence[Value]
    redirects: Sequence[RedirectTarget]
    cmd: Simple | None

    def note(self) -> None:
        self.it.act(self.state, self.argv, self.redirects)

    def end(self, status: int | None = 0) -> list[State]:
        self.state.status = status
        return [self.state]
