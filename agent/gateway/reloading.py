"""Reloads the configuration while users chat; an invalid one is refused, and the old one stays in effect."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.backends import Backends
from agent.config import Config, load_config, read_secrets
from agent.gateway.starting import require_backend
from agent.plugin_host.plugins import canonical
from agent.policy.confirmation import require_confirmed
from toolcrib.contract.errors import ConfigError

if TYPE_CHECKING:
    from agent.process import Crib

RELOADED = "reloaded"
"""Name in the store of the outcome of the last reload."""
_AT_START = ("store", "gateway.logs")
"""Keys that take effect at the next start."""


async def taken_up(crib: Crib) -> list[str]:
    """Apply the configuration file as it is now to the process, and return lines that describe the changes.

    Raises ConfigError with file, line and key, and UnconfirmedConfig for unconfirmed changes; in both cases nothing changes.
    """
    before = crib.config
    now, data = await asyncio.to_thread(_read, crib)
    loaded = crib.reconfigure(now, data)
    await crib.lifecycle.start_new()
    failed = {info.name: info.error for info in crib.plugins if info.error}
    told = [f"plugin {info.name}: {failed.get(info.name) or 'loaded'}" for info in loaded]
    told += [
        f"plugin {name} is no longer enabled; its tools and hooks stay until the next start" for name in _disabled(crib, now)
    ]
    told += [f"{key} takes effect at the next start" for key in _AT_START if _value(before, key) != _value(now, key)]
    return told


def pin(crib: Crib) -> None:
    """Keep the configuration file as the process read it: until a reload, the workspaces of later chats use it too.

    Does nothing if the file can't be read or has changed since.
    """
    with contextlib.suppress(OSError):
        data = crib.config.path.read_bytes()
        if hashlib.sha256(data).hexdigest() == crib.config.digest:
            crib.workspaces.pinned = data


def _read(crib: Crib) -> tuple[Config, bytes]:
    path = crib.config.path
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    now = load_config(path, profile=crib.config.profile, project_dir=crib.project_dir, instead=data)
    require_confirmed(now)
    read_secrets(now.folder)
    backends = Backends(now, ())
    for name in now.platforms:
        require_backend(now, backends, name)
    return now, data


def wanted(crib: Crib, named: Sequence[str] | None) -> list[str]:
    """Return the platforms to run: those of enabled plugins, limited to ``named`` if given."""
    off = {platform for info in crib.plugins if info.name in _disabled(crib, crib.config) for platform in info.platforms}
    return [name for name in (crib.platforms if named is None else named) if name in crib.platforms and name not in off]


def _disabled(crib: Crib, config: Config) -> list[str]:
    """Return the plugins that are loaded but no longer enabled."""
    enabled = {canonical(name) for name in config.plugins.enabled}
    return [info.name for info in crib.plugins if info.loaded and canonical(info.name) not in enabled]


def _value(config: Config, key: str) -> object:
    found: object = config
    for part in key.split("."):
        found = getattr(found, part)
    return found
