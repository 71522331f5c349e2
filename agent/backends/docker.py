"""The backend ``docker``: a container for each session."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.backends.base import Backend, FoundContainers, Opener
from toolcrib.contract.dataclass import replace
from toolcrib.contract.environment import ExecRequest
from toolcrib.contract.errors import EnvironmentFailed

if TYPE_CHECKING:
    from tools.environments.containers import OurContainer

_DEFAULT_ENGINE = "unix:///var/run/docker.sock"


class ContainerBackend(Backend):
    """Containers of an image, on an engine."""

    __slots__ = ()

    @property
    def engine(self) -> str:
        """Return the address of the engine."""
        return self.options["host"] or os.environ.get("DOCKER_HOST", "") or _DEFAULT_ENGINE

    @property
    def target(self) -> str:
        """Return the kind and the address of the engine."""
        return f"{self.kind}:{self.engine}"

    @property
    def shown(self) -> str:
        """Return a short description of the container, for users."""
        return f"a container of {self.options['image'] or 'no image'}, network {self.options['network']}"

    @property
    def model_description(self) -> str:
        """Return the description of the container for a model."""
        options = self.options
        mounts = [mount.split(":") for mount in options["mounts"] if mount.endswith(":rw")]
        project = ["the working folder (the person's)"] if options["project"] == "rw" else []
        kept = [*project, *(mount[-2] for mount in mounts)]
        files = f"Only {', '.join([*kept, '/tmp'])} can be written."  # noqa: S108 - named, not used
        if not options["read_only"]:
            files = f"Written files are lost at the end{', except in ' * bool(kept)}{', '.join(kept)}."
        net = "It has no network." if options["network"] == "none" else "It has network access."
        return f"a docker container of the image {options['image']}, not the person's machine. {files} {net}"

    @property
    def fleeting(self) -> Backend:
        """Return this backend with containers that are removed at the end."""
        return replace(self, options={**self.options, "keep": "remove"})

    def problem(self) -> str:
        """Return a message if the engine's socket is missing, "" otherwise."""
        path = self.engine.removeprefix("unix://")
        return f"no docker engine listens at {path}" if path != self.engine and not Path(path).exists() else ""

    def state(self, faults: Mapping[str, str]) -> str:
        """Return whether the engine answers."""
        return faults.get(self.engine, "the engine answers")

    def offers(self) -> tuple[str, ...]:
        """Return the images that the engine has."""
        from tools.environments.docker import admin

        return admin.images(self.options["host"])

    def shell(self, opener: Opener, start: str, *, cwd: str = "", container: OurContainer | None = None) -> int:
        """Run a shell in ``container``, a session's, or else in a new one, which is removed afterwards."""
        from tools.environments.docker.person import person_shell

        host = self.options["host"]
        shell = ["sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"]
        if container is not None:
            if container.status != "running":
                raise EnvironmentFailed(f"the container {container.name} is {container.status}, not running: `docker start` it")
            return person_shell(host, container.name, shell, start if self.options["project"] != "none" else "/tmp")  # noqa: S108 - the container's own
        environment = opener(self.fleeting, f"shell-{secrets.token_hex(4)}")
        try:
            asyncio.run(environment.execute(ExecRequest("true", timeout=60)))
            return person_shell(host, environment.identity.removeprefix("docker:"), shell, environment.cwd)
        finally:
            asyncio.run(environment.close())

    # -- containers of all sessions --------------------------------------------------------------------------------

    @staticmethod
    def find_containers(configured: Iterable[Backend]) -> FoundContainers:
        """Return toolcrib's containers on each engine."""
        from tools.environments.docker import admin

        found: list[OurContainer] = []
        faults: dict[str, str] = {}
        wanted = {backend.options["host"] for backend in configured}
        # The configuration and $DOCKER_HOST may name the same engine differently: it is asked only once.
        for engine, host in {admin.engine_of(host): host for host in ["", *sorted(wanted)]}.items():
            is_there = engine.startswith("unix://") and Path(engine.removeprefix("unix://")).exists()
            if host not in wanted and not is_there:
                continue
            try:
                found += admin.containers(host)
            except EnvironmentFailed as error:
                if host in wanted:
                    faults[engine] = str(error)
        return FoundContainers(found, faults)

    @staticmethod
    def stop(container: OurContainer) -> str:
        """Stop a container that is kept for later, and remove any other."""
        from tools.environments.docker import admin

        return admin.stop(container)

    @staticmethod
    def remove(container: OurContainer) -> None:
        """Remove a container."""
        from tools.environments.docker import admin

        admin.remove(container)

    @staticmethod
    def removal(names: Sequence[str]) -> str:
        """Return the command that removes containers."""
        return f"docker rm -f -v {' '.join(names)}"


KIND = ContainerBackend
