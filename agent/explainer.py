"""Explainer: the verdict on a command in a stored session, or in a session that starts now."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agent.conversation import modes
from agent.conversation.locating import find_session
from agent.conversation.state import RunState
from agent.explaining import Explanation, asked_about, explain
from agent.store.memory import MemoryStore
from toolcrib.contract.context import RunIdentity
from toolcrib.contract.environment import Portable, PortableState
from toolcrib.contract.errors import EnvironmentFailed
from tools.approval.modes import Mode
from tools.dispatch.scope import CallScope
from tools.judge.findings import Finding
from tools.undo.snapshots.entries import SnapshotFailed

if TYPE_CHECKING:
    from agent.backends import Location
    from agent.workspace import Workspace


class Explainer:
    """Explains how a session's gate would decide on commands: for a stored session, or for one that would start now."""

    def __init__(self, here: Workspace, scope: CallScope) -> None:
        self.here = here
        self._scope = scope

    @classmethod
    async def of_new(cls, here: Workspace, backend: str = "", mode: str = "") -> Explainer:
        """Return the explainer for a session that the local user would start here, in ``mode`` if given.

        Raises ConfigError for an unknown backend, and InvalidArguments for an unknown mode.
        """
        identity = RunIdentity(secrets.token_hex(16), platform="cli")
        first = modes.first_mode(here.config.approval.mode, {}, mode)
        location = here.location(backend)
        scope = _scope(here, identity, location, MemoryStore(), first)  # no grants yet
        await _measure(here, scope, location)
        return cls(here, scope)

    @classmethod
    async def of_stored(cls, here: Workspace, prefix: str, backend: str = "", mode: str = "") -> Explainer:
        """Return the explainer for a stored session and its run's principal, with the folder and variables of a parked shell.

        Functions, aliases and variables of a running shell are missing: only that shell's process knows them. Raises
        ToolcribError if there is no such session or its backend has changed.
        """
        info = await find_session(here.store, prefix)
        here = here.workspace_of(info)
        run = await here.store.runs.current(info.id)
        state = None if run is None else RunState.of(run)
        identity = RunIdentity(info.id, platform=info.platform, user=info.user)
        if state is not None:
            who = state.principal
            identity = RunIdentity(info.id, state.id, platform=who.platform, user=who.user, roles=who.roles)
        first, location = modes.first_mode(here.config.approval.mode, info.place, mode), here.location(backend, info=info)
        scope = _scope(here, identity, location, here.store, first)
        await _measure(here, scope, location)
        if state is not None and state.shell is not None:
            environment = scope.environment
            if isinstance(environment, Portable):
                with contextlib.suppress(EnvironmentFailed):  # its folder is gone; the run would continue in another one
                    await environment.restore_state(PortableState(state.shell.cwd, dict(state.shell.variables)))
        return cls(here, scope)

    async def explain(self, command: str, cwd: str = "") -> Explanation:
        """Return the explanation of a command; see ``explain``."""
        return await explain(self.here.dispatcher, self._scope, command, cwd)

    def person(self, findings: Sequence[Finding]) -> str:
        """Return who is asked about these findings; see ``asked_about``."""
        return asked_about(self.here.config, self._scope.identity.platform, findings)

    async def close(self) -> None:
        """Close the environment."""
        await self._scope.close()


async def _measure(here: Workspace, scope: CallScope, location: Location) -> None:
    """Measure what the session's snapshots would cover."""
    from agent.snapshots import SessionSnapshots, give_snapshots

    with contextlib.suppress(SnapshotFailed):  # the session itself would report it
        give_snapshots(scope, here.config, location, here.store.changes)
        if isinstance(scope.snapshots, SessionSnapshots):
            await scope.snapshots.measured()


def _scope(here: Workspace, identity: RunIdentity, location: Any, store: Any, mode: Mode) -> CallScope:
    principal = identity.principal
    names = here.granted(principal.platform, None, None, principal.user)
    scope = here.scope(identity, names, location, store=store, asker=None, suspends=False, sink=None, handlers={})
    modes.SessionMode(scope, store).apply(mode)
    return scope
