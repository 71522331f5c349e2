"""Where a session stands that begins delegates."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingPoint:
    """Where a session stands that begins delegates: ``depth`` delegates below a person's session, at ``location``.

    ``open_session`` opens sessions in its workspace, see Crib.open; ``store`` is that workspace's. ``handlers`` are those that
    the session was given.
    """

    open_session: Callable[..., Awaitable[Session]]
    store: Store
    project_dir: Path
    location: Location
    depth: int
    handlers: Mapping[str, Handler]
