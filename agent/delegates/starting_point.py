"""StartingPoint: the parts and settings that a session passes to the delegates that it begins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.store import Store
from toolcrib.contract.types import Handler

if TYPE_CHECKING:
    from agent.backends import Location
    from agent.conversation.session import Session
    from agent.desk.request import SessionRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingPoint:
    """Parts and settings that a session passes to its delegates. ``depth`` is 0 for a user's session, 1 for its delegates.

    ``open`` opens sessions in the session's workspace, which uses ``store``. ``location`` and ``handlers`` are the session's
    own.
    """

    open: Callable[[SessionRequest], Awaitable[Session]]
    store: Store
    project_dir: Path
    location: Location
    depth: int
    handlers: Mapping[str, Handler]
