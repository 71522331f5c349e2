"""Names in the configuration that must exist: of backends and providers, which toolcrib, the file or a plugin brings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent.config import Config, load_config
from toolcrib import ConfigError

if TYPE_CHECKING:
    from agent.run import Crib


def unknown_names(crib: Crib) -> Iterator[str]:
    """Yield each unknown name with its file, line and key, the known names, and the nearest."""
    from agent.providers.factory import check_name

    config = crib.config
    try:
        crib.backends.get()
    except ConfigError as error:
        yield str(error)
    wanted = [("model.provider", config.model.provider), ("approval.smart.provider", config.approval.smart.provider)]
    wanted += [("model.fallback", one.provider) for one in config.model.fallback]
    for key, name in wanted:
        try:
            check_name(name, crib.providers) if name else None
        except ConfigError as error:
            yield f"{config.origin(key)}: {key}: {error}"


def meaning_faults(config: Config, project_dir: Path) -> list[str]:
    """Find settings that are well written and mean nothing, in every profile: names, and rules that fail their examples.

    Enabled plugins are loaded where a name may be theirs, and not else.
    """
    faults = _faults(config, project_dir)
    for name in config.profiles:
        try:
            faults += _faults(load_config(config.path, profile=name), project_dir) if name != config.profile else []
        except ConfigError as error:
            faults.append(str(error))
    return list(dict.fromkeys(faults))


def _faults(config: Config, project_dir: Path) -> list[str]:
    from agent.cli.logs import shown_otherwise
    from agent.run import assemble
    from agent.store.memory import MemoryStore

    def found(config: Config) -> Iterator[str]:
        with assemble(config=config, project_dir=project_dir, store=MemoryStore()) as crib:
            unknown = list(unknown_names(crib))
            yield from unknown
            if unknown:
                yield from (f"the plugin {info.name!r} may bring it: {info.error}" for info in crib.plugins if info.error)

    try:
        with shown_otherwise():
            faults = list(found(replace(config, plugins=replace(config.plugins, enabled=()))))
            return list(found(config)) if faults and config.plugins.enabled else faults
    except ConfigError as error:
        return [str(error)]
