"""The docker environment: one container for each session, hardened by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.contract.environment import Environment, ExecOutcome, ExecRequest, KnowsHome
from tools.environments._request import never_run
from tools.environments.docker.link import DockerLink
from tools.environments.docker.options import Options
from tools.environments.docker.patience import GivenUp
from tools.environments.own_files import NONE, OwnFiles
from tools.environments.remote.terminal import TerminalEnvironment

__all__ = ["DockerEnvironment", "open_docker"]


class DockerEnvironment(TerminalEnvironment):
    """A container as an environment. See RemoteEnvironment for how commands run, and Options for the container's rights.

    ``identity`` is ``docker:NAME``. The container is created at first use. If it is removed or replaced, or the engine restarts,
    the running call fails and reports it. The next call starts the container again or creates another, and reports that.
    """

    def __init__(self, options: Options, cwd: str, own: OwnFiles = NONE) -> None:
        self._mounts, self._own = options.mounts, own
        self._container = DockerLink(options)
        super().__init__(self._container, cwd, env={"HOME": "/tmp", **options.env})  # noqa: S108 - a path in the container

    async def execute(self, request: ExecRequest) -> ExecOutcome:
        try:
            return await super().execute(request)
        except GivenUp:  # raised only before a command starts
            return never_run(request.cwd or self.cwd, self.identity)

    def interrupt(self) -> None:
        super().interrupt()
        self._container.interrupt()

    async def close(self) -> None:
        self._container.leave_soon()
        await super().close()

    def _said(self) -> str:
        return f"{self._container.news()} {super()._said()}".strip()

    async def resolve(self, path: str) -> str:
        """Return the resolved path. For a hard link, in a mount, to one of toolcrib's own files, return that file's own path."""
        found = await super().resolve(path)
        here = self._here(found)
        return found if not here or (name := self._own.leads_to(here)) == here else name

    def _here(self, path: str) -> str:
        """Return the path on this machine of the container's ``path``, or "" if it is in no mount."""
        over = [mount for mount in self._mounts if path == mount.target or path.startswith(f"{mount.target}/")]
        mount = max(over, key=lambda each: len(each.target), default=None)
        return "" if mount is None else f"{mount.source}{path[len(mount.target) :]}"

    def holder(self, path: str) -> str:
        """Return the name of this file's holder: the file on this machine if ``path`` is in a mount, else the container."""
        return f"docker mount {here}" if (here := self._here(path)) else self.identity


def open_docker(
    cwd: str | None = None,
    *,
    image: str = "",
    session: str = "",
    mounts: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    protected: Sequence[str] = (),
    own: OwnFiles = NONE,
    **options: Any,
) -> DockerEnvironment:
    """Open a docker environment. ``cwd`` is the project's folder; the container sees it at the same path. For the other
    options see Options.

    Raises EnvironmentFailed for options that are invalid or would give the container control of this machine.
    """
    made = Options.of(cwd, image=image, session=session, mounts=mounts, env=env or {}, protected=protected, **options)
    return DockerEnvironment(made, made.workdir, own)


if TYPE_CHECKING:

    def _conforms(environment: DockerEnvironment) -> tuple[Environment, KnowsHome]:
        return environment, environment
