"""Undo and redo of file changes by tools: for the user, never for a model."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from agent.config import Config, contents_path
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.effects import RunsCommand
from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.registry import ToolRegistry
from toolcrib.contract.store import SessionInfo, Store
from toolcrib.contract.undo import ChangeStep, StepKind
from tools.processes.records import PROCESSES
from tools.undo import choose
from tools.undo.contents import MemoryContents
from tools.undo.keeper import UndoStore, holder_of
from tools.undo.locks import FileSlots, MemorySlots

if TYPE_CHECKING:  # the module loads with the first undo
    from tools.undo.differences import FileDifference
    from tools.undo.restore import Done, UndoItem
    from tools.undo.snapshots.calls import CallRecorder, SnapshotRestore
    from tools.undo.snapshots.project import Project

_NEWS = ("[the user redid the changes of", "[the user undid the changes of")
_NEWS_END = ". Read them again before you change them.]"
What: TypeAlias = Literal["turn", "call", "redo"]
_MIB = 1024 * 1024
_IN_MEMORY = 64 * _MIB
_TOLD = 20
"""Number of files that ``news`` names for the model; the others are only counted."""


def open_undo(config: Config, store: Store) -> UndoStore | None:
    """Return the store of undo's contents, or None if the configuration disables it. Creates no file yet."""
    undo = config.undo
    if not undo.enabled:
        return None
    most, seconds = undo.max_mb * _MIB, undo.days * 86_400
    memory = sys.modules.get("agent.store.memory")  # a process with such a store has loaded the module
    if memory is not None and isinstance(store, memory.MemoryStore):
        most = min(most, _IN_MEMORY)
        kept, slots = MemoryContents(most), MemorySlots()
        return UndoStore(store.changes, kept, slots, min(undo.max_file_mb * _MIB, most), undo.required, seconds)
    from agent.store.contents import SqliteContents

    path = contents_path()
    contents = SqliteContents(path, max_bytes=most, seconds=seconds, synchronous=config.store.synchronous)
    locks = FileSlots(path.with_name("locks"))
    return UndoStore(store.changes, contents, locks, min(undo.max_file_mb * _MIB, most), undo.required, seconds)


class NothingToUndoError(ToolcribError):
    """No change is left to undo, or no undo to revert."""


@dataclass(frozen=True, slots=True)
class UndoRequest:
    """A user's request. ``id`` is a turn's number, or the id of a call, its beginning or its end; "" means the last one."""

    what: What = "turn"
    id: str = ""
    force: bool = False
    paths: Sequence[str] = ()
    """Only these files: full paths, or the ends of paths. Empty: all."""


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """Preview of an undo. ``steps`` are the undone steps.

    ``others`` names calls of the same turn whose effects stay. ``since`` names such calls of later turns that have no recorded
    changes.
    """

    wanted: UndoRequest
    steps: Sequence[ChangeStep]
    items: Sequence[UndoItem]
    others: Sequence[str] = ()
    since: Sequence[str] = ()
    beside: SnapshotRestore | None = None
    """The part of ``items`` that snapshots restore."""

    @property
    def acting(self) -> list[UndoItem]:
        """Files that the undo would change."""
        return [item for item in self.items if not item.why_not]

    @property
    def refused(self) -> list[UndoItem]:
        """Files that can't be undone, or only by force."""
        return [item for item in self.items if item.why_not]


class Undo:
    """Undo in one session. Methods take the ``environment`` that has the session's files.

    ``opened`` opens the snapshots of its project, if there are any; None means that no snapshots are taken.
    """

    def __init__(
        self,
        keeps: UndoStore | None,
        store: Store,
        registry: ToolRegistry,
        session_id: str,
        opened: Callable[[SessionInfo], Project | None] | None = None,
    ) -> None:
        if keeps is None:
            raise ToolcribError("undo is disabled: undo.enabled is false in the configuration")
        self._keeps = keeps
        self._store = store
        self._registry = registry
        self._opened = opened
        self.session_id = session_id

    async def steps(self) -> Sequence[ChangeStep]:
        """Return the changes of tools, undos and redos, oldest first."""
        return await self._keeps.journal.steps(self.session_id)

    async def differences(self, environment: Environment, turn: int = 0) -> Sequence[FileDifference]:
        """Return the difference of each changed file from its state before the session's or the turn's changes.

        Raises what ``carry_out`` raises.
        """
        from tools.undo.differences import differences

        async with self._recorder(environment) as recorder:
            steps = await self.steps()
            chosen = [step for step in choose.calls(steps) if turn in (0, step.turn)]
            targets = choose.targets(steps, chosen, passed=True)
            beside = None if recorder is None else await recorder.plan(chosen, targets, whole=True, force=True)
            return await differences(self._keeps, environment, targets, beside)

    async def preview(self, found: UndoPlan, environment: Environment) -> Sequence[FileDifference]:
        """Return the difference that a plan would make to each file. Raises what ``carry_out`` raises."""
        from tools.undo.differences import differences

        async with self._recorder(environment) as recorder:
            beside = None if found.beside is None or recorder is None else replace(found.beside, recorder=recorder)
            targets = [item.target for item in found.acting]
            return await differences(self._keeps, environment, targets, beside, is_undo=True)

    async def could(self, wanted: UndoRequest) -> float:
        """Return the time of the last step that the request would revert (Unix seconds), 0 for none. Only for ``id`` ""."""
        chosen = _chosen(await self.steps(), wanted)
        return chosen[-1].at if chosen else 0.0

    async def recover(self, environment: Environment) -> None:
        """Record the changes of calls whose process was killed. Raises SnapshotFailed and SnapshotRefused."""
        async with self._recorder(environment):
            return

    async def plan(self, wanted: UndoRequest, environment: Environment) -> UndoPlan:
        """Return the plan for a request. Raises NothingToUndoError, ToolcribError and EnvironmentFailed."""
        from tools.undo.restore import plan

        async with self._recorder(environment) as recorder:
            steps = await self.steps()
            chosen = _chosen(steps, wanted)
            if not chosen:
                raise NothingToUndoError(_nothing(steps, wanted, self.session_id, has_snapshots=recorder is not None))
            named = bool(wanted.id) or wanted.force
            targets = choose.only(choose.targets(steps, chosen, passed=named), wanted.paths)
            beside, items = None, []
            if recorder is not None:
                beside = await recorder.plan(chosen, targets, whole=not wanted.paths, force=wanted.force)
                known = {item.path for item in beside.items}
                items, targets = list(beside.items), [target for target in targets if target.path not in known]
                beside = beside if beside.items else None
            items += await plan(self._keeps, environment, targets, force=wanted.force)
        if wanted.what != "turn" or wanted.paths:
            return UndoPlan(wanted, chosen, items, beside=beside)
        since = [] if wanted.id else await self._since(steps, chosen[-1].turn)
        return UndoPlan(wanted, chosen, items, await self._others(chosen), since, beside)

    async def carry_out(self, found: UndoPlan, environment: Environment) -> Done:
        """Carry out a plan. Raises ToolcribError, EnvironmentFailed and StoreFailed; see tools.undo.restore.carry_out."""
        from tools.undo.restore import carry_out

        kind: StepKind = "redo" if found.wanted.what == "redo" else "undo"
        revives = choose.reverted(await self.steps(), found.steps[-1]) if kind == "redo" else ()
        known = set() if found.beside is None else {item.path for item in found.beside.items}
        async with self._recorder(environment) as recorder:
            beside = None if found.beside is None or recorder is None else replace(found.beside, recorder=recorder)
            return await carry_out(
                self._keeps,
                environment,
                [item for item in found.items if item.path not in known],
                session_id=self.session_id,
                kind=kind,
                turn=found.steps[-1].turn,
                revives=revives,
                force=found.wanted.force,
                beside=beside,
            )

    @asynccontextmanager
    async def _recorder(self, environment: Environment) -> AsyncIterator[CallRecorder | None]:
        """Yield the recorder of the session's snapshots, None if it has none. Raises SnapshotFailed and SnapshotRefused."""
        info = None if self._opened is None else await self._store.sessions.get(self.session_id)
        project = None if info is None or self._opened is None else self._opened(info)
        if project is None:
            yield None
            return
        from tools.undo.snapshots.calls import CallRecorder

        try:
            recorder = CallRecorder(project, self._store.changes, self.session_id, partial(holder_of, environment))
            await recorder.recover()
            if (await self._store.state.of("session", self.session_id)).get(PROCESSES.name):  # they may still change files
                await recorder.between()
            yield recorder
        finally:
            project.close()

    async def _others(self, chosen: Sequence[ChangeStep]) -> list[str]:
        """Return the calls of the same turn that may have had effects without a record."""
        number = chosen[-1].turn
        if not number:
            return []
        kept = {step.call_id for step in await self.steps() if step.turn == number and step.kind == "call"}
        return await self._acted([call for call in (await self._calls_after(number))[0] if call["id"] not in kept])

    async def _since(self, steps: Sequence[ChangeStep], number: int) -> list[str]:
        """Return the calls of later turns that may have had effects without a record.

        Turns with recorded changes are skipped: earlier undos named their calls.
        """
        if not number:
            return []
        _, *later = await self._calls_after(number)
        known = {step.call_id for step in steps if step.kind == "call" and step.turn > number}
        return await self._acted([call for calls in later if not any(c["id"] in known for c in calls) for call in calls])

    async def _acted(self, calls: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return descriptions of the calls that ran and may have changed something."""
        calls = [call for call in calls if not self._is_harmless(call)]
        if not calls:
            return []
        known = await self._store.ledger.calls(self.session_id)
        ran = {
            (one.call.id, one.call.name) for one in known if one.handler_started
        }  # ids may repeat, so this may name one call too many
        idle = {(one.call.id, one.call.name) for one in known} - ran
        return [_words(call) for call in calls if (call["id"], call["name"]) not in idle]

    def _is_harmless(self, call: Mapping[str, Any]) -> bool:
        entry, args = self._registry.get(call["name"]), call.get("args")
        if entry is None:
            return False
        # An edit that replaced a file is recorded as a step, and is undone with it.
        if entry.kind == "read" or entry.changes in ("nothing", "kept"):
            return True
        if entry.changes != "command" or not isinstance(args, Mapping):
            return False
        from tools.judge.passive import command_acts
        from tools.judge.setting import Setting

        command = args.get("command")
        return isinstance(command, str) and not command_acts(RunsCommand(command, "/"), setting=Setting())

    async def _calls_after(self, number: int) -> list[list[Mapping[str, Any]]]:
        """Return the model's calls after the message with this number, in a list for each of the user's messages."""
        found: list[list[Mapping[str, Any]]] = [[]]
        try:
            records = await self._store.sessions.messages(self.session_id, offset=number)
        except KeyError:
            return found
        for record in records:
            if record.get("role") == "user":
                found.append([])
            found[-1] += record.get("calls") or ()
        return found


def _words(call: Mapping[str, Any]) -> str:
    args = call.get("args")
    said = args.get("command") if isinstance(args, Mapping) else None
    return f"{call['name']}: {said}" if isinstance(said, str) else str(call["name"])


def _chosen(steps: Sequence[ChangeStep], wanted: UndoRequest) -> list[ChangeStep]:
    if wanted.what == "redo":
        return choose.last_undo(steps)
    if wanted.what == "call":
        return choose.call(steps, wanted.id) if wanted.id else choose.last_call(steps, passed=wanted.force)
    if not wanted.id:
        return choose.last_turn(steps, passed=wanted.force)
    if not wanted.id.isdecimal():
        raise ToolcribError(f"{wanted.id!r} is not the number of a turn. List turns: toolcrib undo --list")
    return choose.turn(steps, int(wanted.id))


def _nothing(steps: Sequence[ChangeStep], wanted: UndoRequest, session_id: str, *, has_snapshots: bool) -> str:
    if wanted.what == "redo":
        return "there is no undo to revert"
    if has_snapshots:
        return f"no call of this session ({session_id[:12]}) has changes left to undo; to list all changes: toolcrib undo --list"
    if any(step.kind == "call" for step in steps):
        return "nothing is left to undo: all changes by this session's file tools are undone or can't be undone"
    return f"file tools changed nothing in this session ({session_id[:12]}); changes by commands are not recorded"


def news(steps: Sequence[ChangeStep]) -> str:
    """Return a description for the model of undos that it has not seen; "" for none."""
    lines = []
    for step in steps:
        paths = [change.path if change.path.isprintable() else repr(change.path) for change in step.changes]
        if paths:
            did = _NEWS[step.kind != "redo"]
            more = f" and {len(paths) - _TOLD} more" if len(paths) > _TOLD else ""
            named = ", ".join(paths[:_TOLD])
            lines.append(f"{did} these files: {named}{more}{_NEWS_END}")
    return "\n".join(lines)


def without_news(text: str) -> str:
    """Return a message without the lines that ``news`` put before it."""
    while text.startswith(_NEWS) and (end := text.find(_NEWS_END)) >= 0:
        text = text[end + len(_NEWS_END) :].lstrip("\n")
    return text
