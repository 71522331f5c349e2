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
class SshConfig:
    """Another host, with terminal.backend: ssh; what is empty goes by ~/.ssh/config, but host keys must always be known"""

    host: str = setting("", "The host's name, address, or name in ~/.ssh/config.", expect="text")
    user: str = setting("", "The account there.", expect="text")
    port: int = setting(
        0, "Where its sshd listens. 0 goes by ~/.ssh/config.", expect="a port, or 0", check=lambda port: 0 <= port < 65536
    )
    identity_file: str = setting("", "The key to log in with.", expect="a path")
    known_hosts: str = setting("", "The file that host keys are compared with.", expect="a path")
    jump: str = setting(
        "", "Hosts to go through: [USER@]HOST[:PORT],... or none, whatever ~/.ssh/config says.", expect="names of hosts, or none"
    )
    cwd: str = setting(
        "", "Folder there that sessions start in. Empty takes the account's home.", expect="an absolute path, or one from ~"
    )
    env: Mapping[str, str] = setting(
        dict, "Variables that its commands see. Do not put secrets here: the model can print them.", expect="names with text"
    )


@dataclass(frozen=True, slots=True)
class EnvironmentsConfig:
    """The places where commands run, but for this machine"""

    docker: DockerConfig = field(default_factory=DockerConfig)
    ssh: SshConfig = field(default_factory=SshConfig)
