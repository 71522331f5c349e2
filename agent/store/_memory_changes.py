"""The journal of file changes for one process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from agent.store._memory_room import MemoryMember, Room
from toolcrib.contract.dataclass import replace
from toolcrib.contract.undo import ChangeStep, FileChange


class MemoryChanges(MemoryMember):
    def __init__(self, room: Room | None = None) -> None:
        super().__init__(room)
        self._steps: list[ChangeStep] = []
        self._told: set[int] = set()

    async def begin(self, step: ChangeStep) -> ChangeStep:
        """Record it; the step as it is known from then on, with its ids."""
        with self._writing:
            changes = tuple(replace(change, id=next(self._room.numbers)) for change in step.changes)
            self._steps.append(replace(step, id=next(self._room.numbers), changes=changes))
            return self._steps[-1]

    async def forget(self, change_ids: Collection[int]) -> None:
        """Take out changes that were not made after all. A call's step goes with its last change."""
        with self._writing:
            steps = [
                replace(step, changes=tuple(change for change in step.changes if change.id not in change_ids))
                for step in self._steps
            ]
            self._steps[:] = [step for step in steps if step.changes or step.kind != "call"]

    def forget_sessions(self, session_ids: Collection[str]) -> None:
        """Forget the steps of these sessions. For who holds the lock."""
        self._steps[:] = [step for step in self._steps if step.session_id not in session_ids]

    async def steps(self, session_id: str) -> Sequence[ChangeStep]:
        """All of a session, oldest first."""
        with self._reading:
            return [step for step in self._steps if step.session_id == session_id]

    async def sessions(self, limit: int = 20) -> Sequence[str]:
        """The ids of those in which a call changed files, the last one first."""
        with self._reading:
            return list(dict.fromkeys(step.session_id for step in reversed(self._steps) if step.kind == "call"))[:limit]

    async def settle(
        self, step_id: int, *, undone: Collection[int] = (), passed: Collection[int] = (), revived: Collection[int] = ()
    ) -> None:
        """Record how a step left other changes, by their ids: undone, left as they are, or in effect again."""

        def settled(change: FileChange) -> FileChange:
            if change.id in undone and not change.undone_by:
                return replace(change, undone_by=step_id)
            if change.id in passed:
                return replace(change, passed_by=step_id)
            return replace(change, undone_by=0, passed_by=0) if change.id in revived else change

        with self._writing:
            self._change(settled)

    async def untold(self, session_id: str) -> Sequence[ChangeStep]:
        """Undos and redos that the session's model has not heard of, oldest first."""
        return [step for step in await self.steps(session_id) if step.kind != "call" and step.id not in self._told]

    async def told(self, step_ids: Collection[int]) -> None:
        with self._writing:
            self._told.update(step_ids)

    async def prune(self, before: float) -> None:
        """Forget the steps from before that time (Unix seconds), but for undos and redos that a model has still to hear of."""
        with self._writing:
            self._steps[:] = [
                step for step in self._steps if step.at >= before or (step.kind != "call" and step.id not in self._told)
            ]
            self._told.intersection_update(step.id for step in self._steps)

    def _change(self, of: Callable[[FileChange], FileChange]) -> None:
        self._steps[:] = [replace(step, changes=tuple(of(change) for change in step.changes)) for step in self._steps]
