"""Sessions of delegates: opened with no more rights than their parent has, and run when a slot is free."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from agent.conversation import lineage
from agent.delegates.budget import Allowance, RunBudget, limits_of
from agent.delegates.delegate import Delegate
from agent.delegates.places import Places
from agent.delegates.task import PROMPT, allowed_tools
from toolcrib.contract.dataclass import replace

if TYPE_CHECKING:
    from agent.conversation.core import SessionCore
    from agent.conversation.limits import RunLimits
    from agent.conversation.session import Session
    from agent.delegates.budget import Share
    from agent.delegates.delegate import DelegateOutcome, Report
    from agent.delegates.relaying import Relay
    from agent.delegates.starting_point import StartingPoint
    from agent.delegates.task import Order
    from agent.events import Event


class DelegateStarter:
    """Starts the delegates of ``session``, from its ``start``."""

    def __init__(self, session: SessionCore, start: StartingPoint) -> None:
        self.session = session
        self.store = start.store
        self._start = start
        self._settings = session.config.delegates
        self._places = Places(self._settings.at_once)
        self._budget = RunBudget()

    def tools_for(self, order: Order) -> list[str]:
        """Return the tools of the order's delegate. Raises InvalidArguments for one that its parent lacks."""
        deeper = self._start.depth + 1 < self._settings.max_depth
        return allowed_tools(order, self.session.entries, asks=self.session.scope.asker is not None, delegates=deeper)

    def new(self, session_id: str, order: Order, report: Report = lambda line, share: None) -> tuple[Delegate, Allowance]:
        """Return a delegate that has not begun, and its allowance of time."""
        most = self._settings.seconds
        seconds = most if order.seconds is None else min(order.seconds, most)
        allowance = Allowance(seconds)
        return Delegate(session_id, order, allowance, self.session.store.grants, self._watched, report), allowance

    async def run(self, delegate: Delegate, allowance: Allowance) -> DelegateOutcome:
        """Run a delegate when a slot is free, and return its outcome. Raises as ``open`` does, and CancelledError."""
        session = self.session
        async with self._places.taken(partial(_waiting, delegate, allowance)):
            with self.share() as share:
                child = await self.open(delegate, allowance)
                outcome = await delegate.run(child, self.limits(delegate.order, share))
                if session.run is not None:
                    self._budget.used(delegate.id, session.run.turn_id, outcome.usage, outcome.cost)
                return outcome

    def share(self) -> AbstractContextManager[Share]:
        """Set aside a share of the rest of the session's budget. Raises Denied."""
        session = self.session
        run = session.run if session.turnstile.is_taken else None
        return self._budget.share(run, session.limits, self._settings.at_once)

    def limits(self, order: Order, share: Share) -> RunLimits:
        """Return the limits of the delegate's run."""
        run = self.session.run
        return limits_of(order, self._settings, self.session.limits if run is None else run.limits, share)

    async def open(self, delegate: Delegate, allowance: Allowance) -> Session:
        """Open the delegate's session, new or left by an ended process. Raises the same errors as Crib.open."""
        from agent.delegates.sharing import SharedFiles, SharedUndo, folder_of
        from agent.desk.request import SessionRequest
        from agent.model_choice.models import ModelChoice
        from tools.approval.policy import Policy

        parent, order = self.session, delegate.order
        scope, who = parent.scope, order.principal
        about = order.about()
        place = {
            lineage.DEPTH: str(self._start.depth + 1),
            lineage.ORDER: order.to_text(),
        }
        known = await parent.info()
        child = await self._start.open(
            SessionRequest(
                platform=who.platform,
                user=who.user,
                roles=who.roles,
                asker=None if scope.asker is None else self._relay(delegate, allowance),
                smart=scope.asker is not None,  # if the parent can ask no user, no model approves for the delegate
                suspends=scope.suspends,
                named=delegate.id,
                handlers=self._start.handlers,
                once=not scope.suspends,
                mode=parent.mode.now,
                choice=parent.link.choice or ModelChoice(),
                instructions=PROMPT,
                descent=lineage.Descent(
                    self.tools_for(order),
                    folder_of(self._start.location, parent.scope.opened, self._start.project_dir),
                    parent.id,
                    place,
                    {} if known is None else known.via,
                ),
            )
        )
        child.mode.follow(parent.mode)
        own, shared = child.scope.policy, scope.policy
        if isinstance(own, Policy) and isinstance(shared, Policy):
            told = {"name": str(about["name"]), "task": str(about["task"])}
            above = (*shared.above, parent.id)
            files = SharedFiles(shared.files, parent.id, own.files)
            covered = {name: getattr(shared, name) for name in ("covers", "covers_all_but_ignored", "measured")}
            child.scope.policy = replace(own, files=files, delegate=told, above=above, tool_rules=shared.tool_rules, **covered)
        child.scope.undo = None if scope.undo is None else SharedUndo(scope.undo)
        child.scope.snapshots = None if scope.snapshots is None else scope.snapshots.shared()
        return child

    def _relay(self, delegate: Delegate, allowance: Allowance) -> Relay:
        """Return the relay that passes the delegate's questions to the users who answer the session's."""
        from agent.delegates.relaying import Relay

        session, order = self.session, delegate.order

        def expects() -> bool:
            return not order.background or session.delegates.asks_at_once or session.turnstile.is_taken

        return Relay(lambda: session.scope.asker, expects, session.store.tickets, order.about(), allowance, delegate.waiting)

    def _watched(self, event: Event) -> None:
        self.session.watch(event)


@contextlib.contextmanager
def _waiting(delegate: Delegate, allowance: Allowance) -> Iterator[None]:
    """Wait for a slot without using up the delegate's time."""
    allowance.stop()
    try:
        with delegate.waiting("waits for a free slot"):
            yield
    finally:
        allowance.go_on()
