"""The composition root: everything is put together here.

with assemble() as crib:
    session = crib.open_session(platform="api")
    print(session.call("read_file", {"path": "README.md"}).result.data)
"""

from __future__ import annotations

from pathlib import Path

from agent.config import Config, load_config
from agent.crib import Crib, ToolLine
from agent.session import Session
from agent.store.memory import MemoryStore
from toolcrib._store import Store

__all__ = ["Crib", "Session", "ToolLine", "assemble"]


def assemble(
    *,
    config: Config | None = None,
    config_file: Path | None = None,
    project_dir: Path | None = None,
    store: Store | None = None,
) -> Crib:
    """Put one process's toolcrib together. ``config`` given is used as it is, else ``config_file`` or the person's own is read.

    Raises ConfigError with every fault of the configuration. Plugins that fail are reported in ``Crib.plugins``.
    """
    return Crib(load_config(config_file) if config is None else config, project_dir, store or MemoryStore())
