"""Mounts: the folders of this machine that a container may see."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from toolcrib.contract.errors import EnvironmentFailed
from toolcrib.contract.paths import with_home

_SYSTEM = ("/bin", "/lib", "/lib32", "/lib64", "/opt", "/sbin", "/usr")
"""Folders that can only be mounted read-only."""
_NEVER = ("/boot", "/dev", "/etc", "/private/etc", "/private/var", "/proc", "/root", "/run", "/sys", "/var")
"""Folders that cannot be mounted, nor anything in them except the ``_ALLOWED`` folders of user files."""
_ALLOWED = ("/private/var/folders", "/var/folders", "/var/tmp", "/var/www")  # noqa: S108 - compared, not used
_SHARED = ("/dev/shm", "/private/tmp", "/private/var/tmp", "/tmp", "/var/tmp")  # noqa: S108 - compared, not used
"""Folders shared by all users: only folders inside them can be mounted."""
_KEYS = frozenset(
    {".ssh", ".gnupg", ".aws", ".azure", ".docker", ".kube", ".netrc", ".git-credentials", ".pgpass", ".password-store"}
)
_SETTINGS = frozenset({".config", ".local", ".mozilla", ".cache", "Library"})
"""Folders in the user's home that hold settings."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount: ``source`` on this machine, with links resolved, appears as ``target`` in the container."""

    source: str
    target: str
    read_only: bool


def read_mount(text: str, protected: Sequence[str] = (), host: str = "") -> Mount:
    """Parse ``HERE[:THERE][:ro|rw]``, read-only by default. Raises EnvironmentFailed."""
    parts = text.split(":")
    mode = parts.pop() if len(parts) > 1 and parts[-1] in ("ro", "rw") else "ro"
    if not 1 <= len(parts) <= 2 or not parts[0]:
        raise EnvironmentFailed(f"the mount {text!r} is not of the form HERE[:THERE][:ro|rw]")
    source = os.path.realpath(with_home(parts[0]))
    target = parts[1] if len(parts) == 2 else source
    return check_mount(Mount(source, os.path.normpath(target), mode == "ro"), protected, host)


def check_mount(
    mount: Mount, protected: Sequence[str] = (), host: str = "", *, instead: str = "Mount a folder of the project instead"
) -> Mount:
    """Return the mount if it is allowed. ``host``: the engine's address. ``instead``: advice for a refusal.

    Raises EnvironmentFailed for a folder that would expose this machine, its keys or toolcrib's settings to the container.
    """
    source = mount.source
    try:
        about = os.stat(source)  # noqa: PTH116 - the path is a string
    except OSError as error:
        raise EnvironmentFailed(f"{source} can't be mounted: {error.strerror}. Create it, or remove it from mounts") from error
    if stat.S_ISSOCK(about.st_mode):
        raise EnvironmentFailed(
            f"{source} is a socket, and the engine's socket gives root on this machine: sockets are never mounted"
        )
    if not (stat.S_ISDIR(about.st_mode) or stat.S_ISREG(about.st_mode)):
        raise EnvironmentFailed(f"{source} is neither a folder nor a file: it is never mounted")
    why = _refused(mount, protected, host)
    if why:
        raise EnvironmentFailed(f"{source} is not mounted into a container: {why}. {instead}")
    if not mount.target.startswith("/") or mount.target == "/":
        raise EnvironmentFailed(f"the mount of {source} needs an absolute folder in the container, not {mount.target!r}")
    return mount


def _refused(mount: Mount, protected: Sequence[str], host: str) -> str:
    source, home = mount.source, os.path.realpath(Path.home())
    for path in protected:
        own = os.path.realpath(with_home(path))
        if _within(source, own) or _within(own, source):
            return f"it would expose toolcrib's own {own}"
    if source == "/":
        return "it is the whole machine"
    if not _KEYS.isdisjoint(source.split("/")):
        return "it contains keys"
    if source in _SHARED:
        return "it contains sockets and files of all programs"
    if _within(home, source):
        return "it is, or contains, your home"
    for socket in _sockets(host):
        if _within(socket, source):
            return f"it would expose the socket {socket} of the engine or of your keys' agent"
    if _within(source, home):
        first = os.path.relpath(source, home).split("/")[0]
        return "it contains settings, and maybe keys" if first in _SETTINGS else ""
    if any(_within(source, each) for each in _SYSTEM):
        return "" if mount.read_only else "it is part of the system and can only be mounted read-only (:ro)"
    if any(_within(source, each) for each in _ALLOWED):
        return ""
    return "it belongs to the system" if any(_within(source, each) for each in _NEVER) else ""


def _sockets(host: str) -> list[str]:
    """Return the sockets of the engine and of the agent that holds the user's keys."""
    addresses = (host, os.environ.get("DOCKER_HOST", ""))
    paths = [each.removeprefix("unix://") for each in addresses if each.startswith("unix://")]
    return [os.path.realpath(each) for each in (*paths, os.environ.get("SSH_AUTH_SOCK", "")) if each]


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
