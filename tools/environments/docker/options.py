"""Options of a container."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from toolcrib.contract.errors import EnvironmentFailed
from toolcrib.contract.paths import with_home
from tools.environments import _owner
from tools.environments.docker.mounts import Mount, check_mount, read_mount

LABEL = "toolcrib.session"
OWNER = "toolcrib.owner"
KEY = "toolcrib.key"
_WAIT = ["/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 86400 & wait $!; done"]
_KEEP = ("remove", "reuse")


@dataclass(frozen=True)
class Options:
    """Options of a container. ``memory`` is a number of bytes, or a string such as ``512m``; ``pids`` limits its processes.

    ``network``: ``none`` or the name of a network of the engine. ``user``: ``UID:GID`` or a name in the image; by default the
    current user, who then owns the files that commands write to the project. ``keep``: ``remove`` the container at the end, or
    ``reuse`` it in the next session with the same ``session`` name and options. ``host``: the engine's address.
    """

    image: str
    session: str
    workdir: str
    mounts: tuple[Mount, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    network: str = "none"
    memory: str | int = "2g"
    cpus: float = 2.0
    pids: int = 512
    user: str = ""
    read_only: bool = True
    tmpfs: str = "256m"
    keep: str = "remove"
    host: str = ""

    @classmethod
    def of(
        cls,
        cwd: str | None,
        *,
        image: str,
        session: str,
        mounts: Sequence[str],
        protected: Sequence[str] = (),
        project: str = "rw",
        workdir: str = "",
        **options: Any,
    ) -> Options:
        """Return the checked options. Raises EnvironmentFailed.

        ``project``: how the container sees the folder ``cwd``, at the same path: ``rw``, ``ro`` or ``none``.
        """
        if not image:
            raise EnvironmentFailed("docker needs an image: set environments.docker.image, such as debian:12")
        if isinstance(mounts, str):
            raise EnvironmentFailed(f"mounts takes a list: [{mounts!r}]")
        if project not in ("rw", "ro", "none"):
            raise EnvironmentFailed(f"project is {project!r}; use rw, ro or none")
        host = str(options.get("host", ""))
        read = [read_mount(text, protected, host) for text in mounts]
        start = os.path.realpath(with_home(cwd) if cwd is not None else Path.cwd())
        if project != "none":
            if not Path(start).is_dir():
                raise EnvironmentFailed(f"the working folder {start} does not exist: create it or choose another")
            instead = "Work in another folder, or set project: none"
            read.append(check_mount(Mount(start, start, project == "ro"), protected, host, instead=instead))
        try:
            made = cls(
                image=image,
                session=session or secrets.token_hex(6),
                workdir=workdir or (start if project != "none" else "/tmp"),  # noqa: S108 - a path in the container
                mounts=tuple(read),
                **options,
            )
        except TypeError as error:
            raise EnvironmentFailed(f"docker cannot be opened with these options: {error}") from error
        if made.keep not in _KEEP:
            raise EnvironmentFailed(f"keep is {made.keep!r}; use {', '.join(_KEEP)}")
        if made.network in ("host",) or made.network.startswith("container:"):
            raise EnvironmentFailed(
                f"the network {made.network!r} is the host's or another container's; use none, bridge or a network of the engine"
            )
        return made

    @property
    def key(self) -> str:
        """A digest of the options. Equal options have equal keys."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True, default=str).encode()).hexdigest()[:24]

    def create(self) -> dict[str, Any]:
        """Return the arguments for docker-py's ``containers.create``, by keyword."""
        memory = self.memory
        return {
            "image": self.image,
            "name": f"toolcrib-{self.session[:12]}-{secrets.token_hex(3)}",
            "entrypoint": _WAIT,
            "command": [],
            "user": self.user or f"{os.getuid()}:{os.getgid()}",
            "working_dir": "/",
            "environment": dict(self.env),
            "init": True,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges:true"],
            "read_only": self.read_only,
            "tmpfs": {"/tmp": f"rw,nosuid,nodev,exec,size={self.tmpfs},mode=1777"},  # noqa: S108 - a path in the container
            "mem_limit": memory,
            "memswap_limit": memory,
            "nano_cpus": int(self.cpus * 1e9),
            "pids_limit": self.pids,
            "network_mode": self.network,
            "volumes": [f"{each.source}:{each.target}:{'ro' if each.read_only else 'rw'}" for each in self.mounts],
            "labels": {LABEL: self.session, OWNER: _owner.us(), KEY: self.key, "toolcrib.keep": self.keep},
            "log_config": {"Type": "none"},
        }
