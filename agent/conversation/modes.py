"""Mode of a session: stored with it, switched only by the user, and reread if another process switched it."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakSet

from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import InvalidArguments
from toolcrib.contract.store import Store
from tools.approval.modes import CONFIRM, CONFIRM_KEY, DEFAULT, MODES, Mode, is_stricter, mode_of
from tools.approval.policy import Policy
from tools.dispatch.scope import CallScope

KEY = "mode"
"""The key of the mode in ``SessionInfo.place``."""


class SessionMode:
    """A session's approval mode. No tool can change it."""

    def __init__(self, scope: CallScope, store: Store) -> None:
        self._scope = scope
        self._store = store
        self._leader: SessionMode | None = None
        self._followers: WeakSet[SessionMode] = WeakSet()
        self._is_unkept = False
        """True while a switch is not stored yet: until then ``refresh`` applies only a stricter mode."""
        self._switches = 0

    @property
    def now(self) -> Mode:
        """The mode that applies to the next call."""
        policy = self._scope.policy
        return policy.mode if isinstance(policy, Policy) else DEFAULT

    @property
    def follows(self) -> bool:
        """True for a delegate's session: its mode is the mode of its parent, which may run at the same time."""
        return self._leader is not None

    async def switch(self, name: str) -> Mode:
        """Apply a mode from the next call on, and store it with the session. Raises InvalidArguments, and StoreFailed."""
        if self._leader is not None:
            return await self._leader.switch(name)
        if name not in MODES:
            raise InvalidArguments(f"unknown mode {name!r}; choose {', '.join(MODES)}")
        mode, session_id = mode_of(name), self._scope.identity.session_id
        begins = mode == CONFIRM != self.now
        self._switches += 1
        switch = self._switches
        self._is_unkept = True
        if is_stricter(mode, self.now):  # a stricter mode applies even if it can't be stored
            self.apply(mode)
        if begins:
            for one in (self, *self._followers):
                await one._ask_about_edits_again()
        known = await self._store.sessions.get(session_id)
        if known is not None and switch == self._switches:
            await self._store.sessions.update(session_id, place={**known.place, KEY: mode})
        if switch == self._switches:  # otherwise a later switch began meanwhile, and counts
            self._is_unkept = False
            self.apply(mode)
        return mode

    async def _ask_about_edits_again(self) -> None:
        """Revoke the grants for edits that the user gave while the session was in the mode confirm-edits."""
        policy = self._scope.policy
        if isinstance(policy, Policy):
            for grant in await policy.grants.all(self._scope.identity.session_id):
                if grant.key == CONFIRM_KEY:
                    await policy.grants.revoke(grant.id)

    async def refresh(self) -> None:
        """Apply the mode that another process may have stored."""
        if self._leader is not None:
            await self._leader.refresh()
            self.apply(self._leader.now)
            return
        known = await self._store.sessions.get(self._scope.identity.session_id)
        if known is not None and KEY in known.place:
            mode = mode_of(known.place[KEY])
            if not self._is_unkept or is_stricter(mode, self.now):
                self.apply(mode)

    def follow(self, leader: SessionMode) -> None:
        """Use the mode of another session from now on; a switch of either switches both."""
        self._leader = leader
        leader._followers.add(self)
        self.apply(leader.now)

    def apply(self, mode: Mode) -> None:
        """Apply a mode from the next call on."""
        if isinstance(self._scope.policy, Policy) and mode != self.now:
            self._scope.policy = replace(self._scope.policy, mode=mode)
            for follower in list(self._followers):
                follower.apply(mode)


def first_mode(configured: str, place: Mapping[str, str], wanted: str = "") -> Mode:
    """Return a session's first mode: the wanted one, its stored one, or the configured one.

    Raises InvalidArguments for an unknown wanted mode.
    """
    if wanted and wanted not in MODES:
        raise InvalidArguments(f"unknown mode {wanted!r}; choose {', '.join(MODES)}")
    return mode_of(wanted or place.get(KEY) or configured)


def kept(mode: Mode, place: Mapping[str, str], wanted: str = "") -> Mapping[str, str]:
    """Return the mode's entry for the store; empty for the default mode if the user did not choose it."""
    return {KEY: mode} if wanted or KEY in place or mode != DEFAULT else {}
