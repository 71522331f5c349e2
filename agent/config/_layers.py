"""The layers of a configuration: defaults, the user's file, one of its profiles, and the project's file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent.config._keys import value_at
from agent.config._paths import config_path
from agent.config._project import with_project
from agent.config._read import BrokenConfig, ConfigFault, is_blank, is_mapping, parse_node, read_bytes, read_node
from agent.config._schema import Config
from toolcrib.contract.dataclass import replace
from toolcrib.contract.suggest import near

PROFILE = "TOOLCRIB_PROFILE"
_STORES = {"TOOLCRIB_STATE": "store.path", "TOOLCRIB_STORE_URL": "store.url"}
"""Variables that set a key if the file does not."""


def load_config(
    path: str | Path | None = None,
    *,
    profile: str | None = None,
    project_dir: str | Path | None = None,
    instead: bytes | None = None,
) -> Config:
    """Read the configuration. Without a file, all keys have their defaults.

    ``profile`` names one of the file's profiles, None uses $TOOLCRIB_PROFILE, and "" uses none. ``project_dir`` is the
    project whose ``.toolcrib/config.yaml`` may restrict the configuration; None reads no project's file. ``instead`` is
    read instead of the file.

    Raises BrokenConfig (a ConfigError) with every error of the file and all of its profiles; if there is none, with every error
    of the project's file. It is also an error if the project's file can't be read: tools that it disables must not run.
    """
    file = config_path(path)
    chosen = os.environ.get(PROFILE, "") if profile is None else profile
    data = read_bytes(file) if instead is None else instead
    variables = tuple(name for name in _STORES if os.environ.get(name))
    config = _persons(file, data, chosen, variables)
    if config.profile != chosen:
        raise unknown_profile(chosen, config, by_environment=profile is None)
    return config if project_dir is None else with_project(config, Path(project_dir))


@lru_cache(maxsize=4)
def _persons(file: Path, data: bytes | None, chosen: str, variables: tuple[str, ...]) -> Config:
    """Return the configuration of the file's content, with the profile if the file has it. The result is cached, since a
    gateway loads the configuration for each chat.
    """
    node = None if data is None else parse_node(data, file)
    config = Config(path=file) if data is None else read_node(node, file)
    if chosen in config.profiles:
        config = with_profile(node, file, chosen)
    if data is not None:
        config = replace(config, digest=hashlib.sha256(data).hexdigest())
    for name in variables:
        key = _STORES[name]
        if value_at(config, key.split(".")) is None:
            config = replace(config, origins={**config.origins, key: f"environment {name}"})
    return config


def unknown_profile(name: str, config: Config, *, by_environment: bool) -> BrokenConfig:
    """Return the error for a profile that the configuration does not have."""
    known = list(config.profiles)
    alike = near(name, known)
    hint = f"did you mean {alike[0]!r}?" if alike else f"this file has {', '.join(known) or 'no profiles'}"
    text = f"unknown profile {name!r}{f' (from ${PROFILE})' if by_environment else ''}; {hint}"
    return BrokenConfig([ConfigFault(config.path, 0, "profiles", text)])


def with_profile(node: Any, file: Path, name: str) -> Config:
    """Return the configuration of the file's nodes with one of its profiles. Raises BrokenConfig."""
    profile = _child(_child(node, "profiles"), name)
    if profile is None or is_blank(profile):
        return replace(read_node(node, file), profile=name)
    laid = {id(key) for key in _key_nodes(profile)}
    return read_node(_laid_over(_without_foreign_key(node, profile), profile), file, name, laid)


def _without_foreign_key(node: Any, profile: Any) -> Any:
    """Remove the file's api_key_env from a section if the profile sets another base_url there without its own key."""
    for path in _SERVERS:
        node = _without_key(node, profile, path)
    return node


_SERVERS = (("model",), ("approval", "smart"))
"""Sections with a base_url and the api_key_env for it."""


def _without_key(there: Any, here: Any, path: tuple[str, ...]) -> Any:
    if path:
        old = _child(there, path[0])
        new = _without_key(old, _child(here, path[0]), path[1:])
        return there if new is old else _mapping(there, [(key, new if value is old else value) for key, value in there.value])
    if _child(here, "base_url") is None or _child(here, "api_key_env") is not None or _child(there, "api_key_env") is None:
        return there
    return _mapping(there, [pair for pair in there.value if pair[0].value != "api_key_env"])


def _laid_over(base: Any, over: Any) -> Any:
    """Merge two nodes: mappings key by key; any other ``over`` replaces ``base``."""
    if base is None or not is_mapping(base) or not (is_mapping(over) or is_blank(over)):
        return over
    if is_blank(over):
        return base
    new = {key.value: (key, value) for key, value in over.value}
    pairs = [
        (new[key.value][0], _laid_over(value, new.pop(key.value)[1])) if key.value in new else (key, value)
        for key, value in base.value
    ]
    return _mapping(base, [*pairs, *new.values()])


def _mapping(like: Any, pairs: list[tuple[Any, Any]]) -> Any:
    import yaml

    return yaml.MappingNode(like.tag, pairs, like.start_mark, like.end_mark)


def _child(node: Any, name: str) -> Any:
    if node is None or not is_mapping(node):
        return None
    return next((value for key, value in node.value if key.value == name), None)


def _key_nodes(node: Any) -> Iterator[Any]:
    if is_mapping(node):
        for key, value in node.value:
            yield key
            yield from _key_nodes(value)
