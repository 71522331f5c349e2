"""The part of the schema about the places where commands run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agent.config._setting import above_zero, absolute, all_text, at_least_one, setting

_SIZE = "a size such as 512m or 2g"
OWN_NAMES = ("bubblewrap", "docker", "local", "ssh")
"""Of the places that need no name of their own."""
_CHOSEN = f"names (letters, digits, . _ -) that are none of {', '.join(OWN_NAMES)}, each with settings as in environments."


def _is_size(value: str) -> bool:
    return value[:-1].isdecimal() and value[-1] in "bkmg"


def _chosen_names(values: Mapping[str, object]) -> bool:
    return all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) and name not in OWN_NAMES for name in values)


_PATHS = "a list of paths, absolute or from ~"


def _all_absolute(values: tuple[str, ...]) -> bool:
    return all(map(absolute, values))


def _writable() -> Any:
    doc = "Folders that can be written in the sandbox, besides the one that a session starts in and a /tmp of its own."
    return setting((), doc, expect=_PATHS, check=_all_absolute)


def _masked() -> Any:
    doc = "What is empty in the sandbox, besides toolcrib's own files and the usual places of keys (~/.ssh, ~/.aws, ...)."
    return setting((), doc, expect=_PATHS, check=_all_absolute)


def _network() -> Any:
    return setting(False, "Whether there is any network in the sandbox.", expect="true or false")


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    writable: tuple[str, ...] = _writable()
    masked: tuple[str, ...] = _masked()
    network: bool = _network()


@dataclass(frozen=True, slots=True)
class LocalConfig:
    """This machine, with terminal.backend: local"""

    sandbox: Literal["none", "bubblewrap"] = setting(
        "none",
        "none: commands may do what you may. bubblewrap: they read all but keys, write little, and have no network; the other\n"
        "settings here are for that sandbox, which terminal.backend: bubblewrap takes too.",
    )
    writable: tuple[str, ...] = _writable()
    masked: tuple[str, ...] = _masked()
    network: bool = _network()


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
    """The places where commands run. `toolcrib env` lists and tests them; terminal.backend or --backend chooses one"""

    local: LocalConfig = field(default_factory=LocalConfig)
    docker: DockerConfig = field(default_factory=DockerConfig)
    ssh: SshConfig = field(default_factory=SshConfig)
    sandboxes: Mapping[str, SandboxConfig] = setting(
        dict,
        "More sandboxes of this machine, by names of your own for terminal.backend and --backend:\n"
        "  sandboxes:\n"
        "    online: {network: true}",
        expect=f"{_CHOSEN}local",
        check=_chosen_names,
    )
    containers: Mapping[str, DockerConfig] = setting(
        dict,
        "More kinds of containers, by names of your own; nothing is taken over from environments.docker:\n"
        "  containers:\n"
        "    clean: {image: 'debian:12', project: none}",
        expect=f"{_CHOSEN}docker",
        check=_chosen_names,
    )
    hosts: Mapping[str, SshConfig] = setting(
        dict,
        "More hosts, by names of your own; nothing is taken over from environments.ssh:\n"
        "  hosts:\n"
        "    gpu: {host: gpu.example.org, user: me, cwd: /srv/models}",
        expect=f"{_CHOSEN}ssh",
        check=_chosen_names,
    )
