"""The part of the schema about the places where commands run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agent.config._setting import above_zero, all_text, at_least_one, setting

_SIZE = "a size such as 512m or 2g"


def _is_size(value: str) -> bool:
    return value[:-1].isdecimal() and value[-1] in "bkmg"


@dataclass(frozen=True, slots=True)
class DockerConfig:
    """A container for each session, with terminal.backend: docker"""

    image: str = setting(
        "", "The image, such as debian:12; it needs bash. It must be there: toolcrib does not pull.", expect="text"
    )
    host: str = setting("", "Where the engine is. Empty goes by $DOCKER_HOST, or its usual socket.", expect="text")
    project: Literal["rw", "ro", "none"] = setting(
        "rw", "How the container sees the folder that a session starts in, at the same path: rw, ro, or none."
    )
    mounts: tuple[str, ...] = setting(
        (),
        "Other folders that it sees: HERE[:THERE][:ro|rw], read-only unless it says rw.",
        expect="a list such as [/data/models:/models:ro]",
        check=all_text,
    )
    env: Mapping[str, str] = setting(
        dict, "Variables that its commands see. Do not put secrets here: the model can print them.", expect="names with text"
    )
    network: str = setting("none", "none, or one of the engine's networks, such as bridge.", expect="text")
    user: str = setting("", "Whom its commands run as: UID:GID or a name in the image. Empty takes you.", expect="text")
    memory: str = setting("2g", "Memory that it may use.", expect=_SIZE, check=_is_size)
    cpus: float = setting(2.0, "Processors that it may use.", expect="a number above 0", check=above_zero)
    pids: int = setting(512, "Processes that it may have.", expect="a whole number of 1 or more", check=at_least_one)
    read_only: bool = setting(True, "Whether all but /tmp and what is mounted rw can only be read.", expect="true or false")
    tmpfs: str = setting("256m", "Size of its /tmp, which is in memory.", expect=_SIZE, check=_is_size)
    keep: Literal["remove", "reuse"] = setting(
        "remove", "What becomes of it when the session ends: remove, or reuse, for when the same session goes on."
    )


@dataclass(frozen=True, slots=True)
class EnvironmentsConfig:
    """The places where commands run, but for this machine"""

    docker: DockerConfig = field(default_factory=DockerConfig)
