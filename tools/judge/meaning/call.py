"""A call of a builtin, with everything that the builtin's function needs."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.contract.namedtuple import NamedTuple
from tools.judge.meaning.act import RedirectTarget
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import Value
from tools.judge.meaning.walk import Walker
from tools.judge.shell.tree import Simple


class BuiltinCall(NamedTuple):
    it: Walker
    state: State
    argv: Sequence[Value]
    redirects: Sequence[RedirectTarget]
    cmd: Simple | None

    def record_act(self) -> None:
        self.it.act(self.state, self.argv, self.redirects)

    def end(self, status: int | None = 0) -> list[State]:
        self.state.status = status
        return [self.state]
