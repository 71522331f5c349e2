"""Environments on this machine that restrict commands without namespaces, or can run some of them outside."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from toolcrib.contract.containment import Contained, Containment, HasOutside
from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import EnvironmentFailed
from tools.environments.local import LocalEnvironment, landlock
from tools.environments.local.plan import SandboxPlan, masks
from tools.environments.local.system_calls import filter_program
from tools.environments.own_files import NONE, OwnFiles
from tools.environments.shell.launcher import LocalLauncher


class EnvironmentWithOutside(LocalEnvironment):
    """An environment that can run commands outside its sandbox."""

    _beyond: LocalEnvironment | None = None
    _inside_only: Collection[str] = ()
    """Names of variables that commands get only in the sandbox."""

    def outside(self) -> Environment:
        """See HasOutside."""
        with self._lock:
            if self._closed:
                raise EnvironmentFailed("this environment is closed: open another")
            if self._beyond is None:
                env = {name: value for name, value in self._given.items() if name not in self._inside_only}
                self._beyond = LocalEnvironment(self._cwd, pass_env=self._pass_env, env=env, own=self._own)
            return self._beyond

    async def close(self) -> None:
        await super().close()
        if self._beyond is not None:
            await self._beyond.close()


class LandlockedEnvironment(EnvironmentWithOutside):
    """An environment on this machine whose commands cannot reach ``masked`` paths or change ``closed`` ones, by Landlock.

    It is for machines without user namespaces. It restricts neither file tools nor connections to sockets. The other
    options of SandboxedEnvironment need namespaces and are ignored.
    """

    def __init__(
        self,
        cwd: str | None = None,
        *,
        pass_env: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        own: OwnFiles = NONE,
        masked: Sequence[str] = (),
        closed: Sequence[str] = (),
        network: bool = True,
        hosts: Sequence[str] | None = None,
        processes: int = 0,
        memory_mb: int = 0,
        session: str = "",
        records: str = "",
    ) -> None:
        super().__init__(cwd, pass_env=pass_env, env=env, own=own)
        self._plan = SandboxPlan("own", masked=masks(masked), closed=masks(closed), network=True)

    @property
    def identity(self) -> str:
        return "local:own"

    def containment(self) -> Containment:
        """See Contained."""
        return self._plan.containment()

    def _launcher(self, root: str) -> LocalLauncher:
        return LocalLauncher(root, self.identity, self.person_argv()[:-1])

    def person_argv(self) -> list[str]:
        """Return the command line that starts a shell for the user with the same restrictions."""
        return landlock.argv([*self._plan.masked], [*self._plan.closed], filter_program(), ["bash"])


if TYPE_CHECKING:

    def _conforms(landlocked: LandlockedEnvironment) -> tuple[Contained, HasOutside]:
        return landlocked, landlocked
