"""The schema of backends, which run commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal

from agent.config._model import COUNT
from agent.config._setting import SECONDS, above_zero, absolute, at_least_one, at_least_zero, env_names, setting
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex
from tools.environments.rows import LOCAL, ROWS, listed

_SIZE = "a size above 0, such as 512m or 2g"
OWN_NAMES = tuple(sorted(ROWS))
"""Names of the built-in backends, which need no section of their own."""
_CHOSEN = f"names (letters, digits, . _ -) other than {', '.join(OWN_NAMES)}, each with settings as in environments."


def _fits(pattern: str) -> Callable[[str], bool]:
    """Return a check that accepts empty text, or text that matches the pattern as a whole."""
    regex = Regex(f"(?:{pattern})?", re.ASCII)
    return lambda value: regex.fullmatch(value) is not None


def _is_network(value: str) -> bool:
    return value not in ("", "host") and not value.startswith("container:")


def _is_size(value: str) -> bool:
    return re.fullmatch(r"0*[1-9][0-9]*[bkmg]", value) is not None


def _are_mounts(values: tuple[str, ...]) -> bool:
    return all(re.fullmatch(r"[/~][^:]*(?::/[^:]*)?(?::r[ow])?", value) for value in values)


def _are_variables(values: Mapping[str, str]) -> bool:
    return env_names(tuple(values)) and not any("\0" in value for value in values.values())


def _chosen_names(values: Mapping[str, object]) -> bool:
    return all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) and name not in OWN_NAMES for name in values)


_PATHS = "a list of paths, absolute or from ~"
_PATH = "a path, absolute or from ~"
_is_path = _fits(r"[/~%].*|none")  # % as in ~/.ssh/config
_HOP = r"(?:[^\s@,-][^\s@,]*@)?[^\s@,-][^\s@,]*"


def _all_absolute(values: tuple[str, ...]) -> bool:
    return all(map(absolute, values))


def _all_hosts(values: tuple[str, ...]) -> bool:
    if not values:
        return True
    from tools.environments.local.network.hosts import parse_rule

    try:
        return all(map(parse_rule, values))
    except ValueError:
        return False


def _writable() -> Any:
    doc = "Folders that commands may write in the sandbox, besides the session's folder and a private /tmp."
    return setting((), doc, expect=_PATHS, check=_all_absolute)


def _masked() -> Any:
    doc = "Files and folders that look empty in the sandbox, besides toolcrib's own and the usual folders of keys (~/.ssh, ...)."
    return setting((), doc, expect=_PATHS, check=_all_absolute)


def _network() -> Any:
    return setting(False, "Whether the sandbox has a network.", expect="true or false")


@dataclass(frozen=True, slots=True)
class TerminalConfig:
    """The terminal tool"""

    backend: str = setting(
        LOCAL,
        f"Where a session's commands run and its files are: {listed()},\n"
        "a name of your own from environments, or a plugin's backend. --backend sets it for one session. If the backend is\n"
        "unavailable, commands fail: toolcrib never falls back to another.",
        expect="the name of a backend",
    )
    cwd: str | None = setting(
        None,
        "Folder that sessions start in, absolute or from ~. null uses the folder that toolcrib was started in.",
        expect="an absolute path, or null",
        check=absolute,
    )
    timeout: float = setting(
        120.0, "Seconds that a command may take, if the call sets no limit.", expect=SECONDS, check=above_zero
    )
    pass_env: tuple[str, ...] = setting(
        (),
        "Environment variables that commands get, besides a short safe list. Do not name secrets here: the model can print them.",
        expect="a list of names of environment variables",
        check=env_names,
    )
    processes: int = setting(
        20, "Background processes that one user may run at the same time, in all sessions.", expect=COUNT, check=at_least_one
    )
    log_mb: int = setting(
        64,
        "MiB that are kept of a background process's output: the first and the last half. They lie in its environment.",
        expect="a whole number from 1 to 4096",
        check=lambda value: 1 <= value <= 4096,
    )


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    writable: tuple[str, ...] = _writable()
    masked: tuple[str, ...] = _masked()
    network: bool = _network()


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """The sandbox of commands on this machine, with terminal.backend: local"""

    mode: Literal["workspace", "own", "none"] = setting(
        "workspace",
        "workspace: commands can change only the project, private caches and a private /tmp, and cannot read keys. own: they\n"
        "cannot reach toolcrib's own files. none: commands have all your rights. `toolcrib doctor` shows which modes this\n"
        "machine supports; if it does not support this one, a weaker one is used.",
    )
    write: tuple[str, ...] = setting(
        (), "Folders that commands may change besides the project, such as sibling projects.", expect=_PATHS, check=_all_absolute
    )
    mask: tuple[str, ...] = setting(
        (),
        "Files and folders that look empty to commands, besides the usual keys (~/.ssh, ~/.aws, ...).",
        expect=_PATHS,
        check=_all_absolute,
    )
    caches: Literal["private", "shared"] = setting(
        "private",
        "private: caches that commands write (~/.cache, ~/.npm, ...) are deleted with the session. shared: commands write to\n"
        "your caches, and files that they leave there may run outside the sandbox later.",
    )
    network: Literal["none", "hosts", "on"] = setting(
        "hosts",
        "Network of commands. hosts: they reach sandbox.hosts, the hosts of the package managers that you use, and other\n"
        "hosts after you approve each. none: no network. on: this machine's network.",
    )
    hosts: tuple[str, ...] = setting(
        (),
        "Hosts that commands may reach with network: hosts. example.org means all its ports, *.example.org its subdomains.\n"
        "Name services on this machine with their port: localhost:5432.",
        expect="a list of hosts, such as [example.org, 'localhost:5432']",
        check=_all_hosts,
    )
    outside: Literal["ask", "never"] = setting(
        "ask",
        "ask: a model may ask you to run one command outside the sandbox, and commands that cannot work in it, such as sudo and\n"
        "docker, are asked about at once. never: all commands run in the sandbox.",
    )
    processes: int = setting(1024, "Processes and threads that a session's sandbox may have.", expect=COUNT, check=at_least_one)
    memory_mb: int = setting(
        0, "Memory that a session's sandbox may use, in MB. 0 sets no limit.", expect="a whole number, or 0", check=at_least_zero
    )


@dataclass(frozen=True, slots=True)
class LocalConfig:
    """This machine, with terminal.backend: local"""

    sandbox: Literal["none", "bubblewrap"] = setting(
        "none",
        "none: sandbox.mode decides. bubblewrap: commands can read everything but keys, write little, and have no network.\n"
        "The other settings here are for that sandbox, which terminal.backend: bubblewrap uses too.",
    )
    writable: tuple[str, ...] = _writable()
    masked: tuple[str, ...] = _masked()
    network: bool = _network()


@dataclass(frozen=True, slots=True)
class DockerConfig:
    """A container for each session, with terminal.backend: docker"""

    image: str = setting(
        "", "The image, such as debian:12. It needs bash, and you must pull it: toolcrib does not.", expect="text"
    )
    host: str = setting(
        "",
        "Address of the engine. Empty uses $DOCKER_HOST, or the usual socket.",
        expect="an address such as unix:///run/docker.sock or tcp://HOST:PORT, or nothing; ssh:// is not supported",
        check=_fits(r"unix:///\S+|(?:tcp|https?)://\S+"),
    )
    project: Literal["rw", "ro", "none"] = setting(
        "rw", "How the container mounts the session's folder, at the same path: rw, ro or none."
    )
    mounts: tuple[str, ...] = setting(
        (),
        "Other folders to mount: HERE[:THERE][:ro|rw], read-only by default.",
        expect="a list such as [/data/models:/models:ro], each path absolute, or HERE from ~",
        check=_are_mounts,
    )
    env: Mapping[str, str] = setting(
        dict,
        "Environment variables of its commands. Do not put secrets here: the model can print them.",
        expect="names of environment variables, each with text",
        check=_are_variables,
    )
    network: str = setting(
        "none",
        "none, or one of the engine's networks, such as bridge.",
        expect="none, or a network's name (neither host nor another container's)",
        check=_is_network,
    )
    user: str = setting(
        "",
        "User that its commands run as: UID:GID or a name in the image. Empty uses your own.",
        expect="UID:GID in quotes, or a name",
        check=_fits(r"[^\s:]+(?::[^\s:]+)?"),
    )
    memory: str = setting("2g", "Memory that it may use.", expect=_SIZE, check=_is_size)
    cpus: float = setting(2.0, "Processors that it may use.", expect="a number above 0", check=above_zero)
    pids: int = setting(512, "Processes that it may have.", expect="a whole number of 1 or more", check=at_least_one)
    read_only: bool = setting(True, "Whether everything except /tmp and mounts with rw is read-only.", expect="true or false")
    tmpfs: str = setting("256m", "Size of its /tmp, which is kept in memory.", expect=_SIZE, check=_is_size)
    keep: Literal["remove", "reuse"] = setting(
        "remove", "What happens to it when the session ends. remove: it is deleted. reuse: a resumed session uses it again."
    )


@dataclass(frozen=True, slots=True)
class SshConfig:
    """Another host, with terminal.backend: ssh. Empty keys use ~/.ssh/config, but host keys must always be known"""

    host: str = setting(
        "", "The host's name, address, or name in ~/.ssh/config.", expect="a host's name or address", check=_fits(_HOP)
    )
    user: str = setting("", "The account on the host.", expect="an account's name", check=_fits(r"[^\s@:-][^\s@:]*"))
    port: int = setting(0, "Port of its sshd. 0 uses ~/.ssh/config.", expect="a port, or 0", check=lambda port: 0 <= port < 65536)
    identity_file: str = setting("", "The key to log in with.", expect=_PATH, check=_is_path)
    known_hosts: str = setting("", "The file with the known host keys.", expect=_PATH, check=_is_path)
    jump: str = setting(
        "",
        "Hosts to jump through: [USER@]HOST[:PORT],... none overrides ~/.ssh/config.",
        expect="hosts, as in me@gate,inner:2222, or none",
        check=_fits(rf"{_HOP}(?:,\s*{_HOP})*"),
    )
    cwd: str = setting(
        "",
        "Folder on the host that sessions start in. Empty uses the account's home folder.",
        expect=_PATH,
        check=_fits("[/~].*"),
    )
    env: Mapping[str, str] = setting(
        dict,
        "Environment variables of its commands. Do not put secrets here: the model can print them.",
        expect="names of environment variables, each with text",
        check=_are_variables,
    )


@dataclass(frozen=True, slots=True)
class EnvironmentsConfig:
    """Backends, which run commands. `toolcrib env` lists and tests them; terminal.backend or --backend chooses one"""

    local: LocalConfig = field(default_factory=LocalConfig)
    docker: DockerConfig = field(default_factory=DockerConfig)
    ssh: SshConfig = field(default_factory=SshConfig)
    sandboxes: Mapping[str, SandboxConfig] = setting(
        dict,
        "More sandboxes on this machine, by names of your own for terminal.backend and --backend:\n"
        "  sandboxes:\n"
        "    online: {network: true}",
        expect=f"{_CHOSEN}local",
        check=_chosen_names,
    )
    containers: Mapping[str, DockerConfig] = setting(
        dict,
        "More kinds of containers, by names of your own; they inherit nothing from environments.docker:\n"
        "  containers:\n"
        "    clean: {image: 'debian:12', project: none}",
        expect=f"{_CHOSEN}docker",
        check=_chosen_names,
    )
    hosts: Mapping[str, SshConfig] = setting(
        dict,
        "More hosts, by names of your own; they inherit nothing from environments.ssh:\n"
        "  hosts:\n"
        "    gpu: {host: gpu.example.org, user: me, cwd: /srv/models}",
        expect=f"{_CHOSEN}ssh",
        check=_chosen_names,
    )
