"""The backend ``bubblewrap``: a sandbox on this machine with its own settings; several can be configured by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.backends.base import Backend, BackendOpening, Opener, is_within
from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import EnvironmentFailed
from toolcrib.contract.paths import with_home
from tools.environments import open_environment
from tools.environments.rows import LOCAL, BackendRow

if TYPE_CHECKING:
    from agent.config import Config
    from tools.environments.containers import OurContainer
    from tools.environments.local.holding import Mode


class SandboxBackend(Backend):
    """A sandbox on this machine."""

    __slots__ = ()

    @classmethod
    def of(cls, config: Config, name: str, row: BackendRow, key: str, section: Any) -> Backend:
        """Return the sandbox that a section describes: its own section, or that of ``local``, which has more settings."""
        boxed = {setting: getattr(section, setting) for setting in ("writable", "masked", "network")}
        return cls(name, row.name, key, {**boxed, "pass_env": config.terminal.pass_env})

    @property
    def wanted_mode(self) -> Mode:
        """Return "workspace", the mode of every sandbox of this kind."""
        return "workspace"

    @property
    def shown(self) -> str:
        """Return a short description of the sandbox, for users."""
        return f"a sandbox on this machine, {'with' if self.options['network'] else 'no'} network"

    @property
    def model_description(self) -> str:
        """Return the description of the sandbox for a model."""
        folders = ", ".join(["the working folder", *self.options["writable"], "/tmp"])  # noqa: S108 - named, not used
        net = "It has network access." if self.options["network"] else "There is no network."
        return f"this machine, in a sandbox: only {folders} can be written. {net}"

    def problem(self) -> str:
        """Return why no sandbox works here, and the fix; "" if one works."""
        from tools.environments.local.holding import sandbox_here

        held = sandbox_here("workspace")
        return "" if held.mode == "workspace" else f"{held.why_not_more}: {held.fix}"

    def state(self, faults: Mapping[str, str]) -> str:
        """Return whether a sandbox works here."""
        return self.problem() or "ready"

    def open(self, opening: BackendOpening) -> Environment:
        """Open a sandbox. Raises EnvironmentFailed if a writable folder would expose toolcrib's own files."""
        from tools.environments.local.plan import MASKED

        for folder in (opening.start, *self.options["writable"]):
            real = os.path.realpath(with_home(folder))
            for own in map(os.path.realpath, opening.protected):
                if is_within(real, own) or is_within(own, real):
                    raise EnvironmentFailed(
                        f"{real} cannot be writable in a sandbox: commands could reach toolcrib's own {own}. "
                        "Start in a folder of the project"
                    )
        options = {**self.options, "masked": [*MASKED, *self.options["masked"], *opening.protected]}
        options |= {"session": opening.session, "records": opening.records}
        return open_environment(LOCAL, cwd=opening.start, sandbox=self.kind, own=opening.own, **options)

    def shell(self, opener: Opener, start: str, *, cwd: str = "", container: OurContainer | None = None) -> int:
        """Run a shell in a sandbox like that of sessions."""
        from agent.backends.person import in_sandbox

        return in_sandbox(opener, self, start)


KIND = SandboxBackend
