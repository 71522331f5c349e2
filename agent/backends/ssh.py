"""The backend ``ssh``: an account on another host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.backends.base import Backend, BackendOpening, Opener
from toolcrib.contract.environment import Environment
from tools.environments import open_environment

if TYPE_CHECKING:
    from tools.environments.containers import OurContainer


class SshBackend(Backend):
    """An account on another host."""

    __slots__ = ()

    @property
    def target(self) -> str:
        """Return the kind, the account, the host and the port."""
        user, port = self.options["user"], self.options["port"]
        return f"{self.kind}:{user}@{self.options['host']}:{port}".replace(":@", ":").removesuffix(":0")

    @property
    def shown(self) -> str:
        """Return the account, the host and the port, for users."""
        return self._address or "no host"

    @property
    def model_description(self) -> str:
        """Return the description of the host for a model."""
        return f"another host, {self._address}, over ssh; not the person's machine."

    @property
    def _address(self) -> str:
        return self.target.removeprefix(f"{self.kind}:")

    def open(self, opening: BackendOpening) -> Environment:
        """Open an environment, which connects with the first command. Raises EnvironmentFailed."""
        return open_environment(self.kind, **(self.options if opening.cwd is None else {**self.options, "cwd": opening.cwd}))

    def shell(self, opener: Opener, start: str, *, cwd: str = "", container: OurContainer | None = None) -> int:
        """Run a shell on the host, with the user's own ssh."""
        from agent.backends.person import run_program
        from tools.environments.ssh import person_argv

        return run_program(person_argv(**{**self.options, "cwd": cwd or self.options["cwd"]}), start)


KIND = SshBackend
