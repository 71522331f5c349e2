"""Commands that need not be judged again."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.contract.effects import Effect, RunsCommand, ShellState
from tools.judge.patterns import added


class Harmless:
    """Commands that were judged without a finding, without reading any file and without the effects of earlier ones.

    In the same folder and shell state, the same text has the same verdict. Safe to use from several threads.
    """

    _MOST = 256

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], ShellState | None] = {}
        """The shell states, by key. A state is kept alive so that its id, which is in the key, stays unique."""
        self._patterns = added()

    def knows(self, effects: Sequence[Effect]) -> bool:
        if added() != self._patterns:
            self._known, self._patterns = {}, added()
        return len(effects) == 1 and isinstance(effects[0], RunsCommand) and _key(effects[0]) in self._known

    def add(self, effects: Sequence[Effect]) -> None:
        if len(effects) == 1 and isinstance(effects[0], RunsCommand):
            if len(self._known) >= self._MOST:
                self._known = {}
            self._known[_key(effects[0])] = effects[0].shell


def _key(effect: RunsCommand) -> tuple[object, ...]:
    background = effect.background, effect.open_input, effect.terminal
    return effect.command, effect.cwd, id(effect.shell), effect.outside, effect.hosts, *background
