"""The valid part of a configuration that has errors. Checks examine it for further errors; tools never run with it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.config._layers import PROFILE, unknown_profile, with_profile
from agent.config._paths import config_path
from agent.config._project import with_project
from agent.config._read import BrokenConfig, ConfigFault, is_mapping, parse_node, read_bytes, read_node
from agent.config._schema import Config
from toolcrib.contract.dataclass import replace

_MOST_PASSES = 50


def sound_part(
    path: str | Path | None = None, *, profile: str | None = None, project_dir: str | Path | None = None
) -> tuple[Config | None, list[ConfigFault]]:
    """Read the configuration as ``load_config`` does, without the keys that are wrong.

    Returns the valid part, or None if nothing can be read, and every error: of the file, its profiles and the project's file.
    """
    file, faults = config_path(path), list[ConfigFault]()
    try:
        data = read_bytes(file)
        node = None if data is None else parse_node(data, file)
    except BrokenConfig as error:
        return None, list(error.faults)
    config: Config | None = Config(path=file)
    if node is not None and data is not None:
        config, node = _read(node, file, faults)
        config = config and replace(config, digest=hashlib.sha256(data).hexdigest())
    chosen = os.environ.get(PROFILE, "") if profile is None else profile
    if config is not None and chosen:
        try:
            if chosen not in config.profiles:
                raise unknown_profile(chosen, config, by_environment=profile is None)
            config = replace(with_profile(node, file, chosen), digest=config.digest)
        except BrokenConfig as error:
            faults += [fault for fault in error.faults if fault not in faults]
    if config is not None and project_dir is not None:
        try:
            config = with_project(config, Path(project_dir))
        except BrokenConfig as error:
            faults += error.faults
    return config, faults


def _read(node: Any, file: Path, faults: list[ConfigFault]) -> tuple[Config | None, Any]:
    """Return (configuration, nodes) of the valid nodes; the configuration is None if none is left. Add errors to ``faults``."""
    for _ in range(_MOST_PASSES):
        try:
            return read_node(node, file), node
        except BrokenConfig as error:
            faults += [fault for fault in error.faults if fault not in faults]
            smaller = node
            for fault in error.faults:
                smaller = _without(smaller, fault.key, fault.line)
            if smaller is node or smaller is None:
                return None, node
            node = smaller
    return None, node


def _without(node: Any, key: str, line: int) -> Any:
    """Return the node without the value at a dotted key. If the key is empty, remove the pair that begins on ``line``.

    Return None if nothing is left.
    """
    import yaml

    if is_mapping(node):
        pairs = [pair for one in node.value for pair in _pair_without(one, key, line)]
        same = len(pairs) == len(node.value) and all(new is old for new, old in zip(pairs, node.value, strict=True))
        return node if same else yaml.MappingNode(node.tag, pairs, node.start_mark, node.end_mark)
    if node.id == "sequence" and key.startswith("["):
        index = int(key[1:].partition("]")[0])
        return yaml.SequenceNode(
            node.tag, [one for at, one in enumerate(node.value) if at != index], node.start_mark, node.end_mark
        )
    return node if key else None


def _pair_without(pair: Any, key: str, line: int) -> Sequence[Any]:
    name, value = pair
    if key in ("", name.value):
        return () if key == name.value or name.start_mark.line + 1 == line else (pair,)
    for end in (".", "["):
        if name.id == "scalar" and key.startswith(f"{name.value}{end}"):
            rest = key[len(name.value) :]
            inner = _without(value, rest.removeprefix("."), line)
            return (pair,) if inner is value else () if inner is None else ((name, inner),)
    return (pair,)
