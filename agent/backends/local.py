"""The backend ``local``: this machine, with the user's rights or in the sandbox of ``sandbox.mode``."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.backends.base import Backend, BackendOpening, Opener, is_within, project_of
from agent.backends.bubblewrap import SandboxBackend
from agent.policy.self_protection import BELOW, folders_of, marks_of
from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import EnvironmentFailed
from toolcrib.contract.paths import real_path, with_home
from tools.environments import open_environment
from tools.environments.rows import BackendRow, row_of

if TYPE_CHECKING:
    from agent.config import Config, SandboxSettings
    from tools.environments.containers import OurContainer
    from tools.environments.local.holding import Mode, SandboxHolding

_NETWORK = {
    "on": "It has network access.",
    "none": "There is no network.",
    "hosts": "It reaches only hosts that the user allowed, and asks about others.",
}


class LocalBackend(Backend):
    """This machine. ``options`` has the section ``sandbox`` unless its mode is none."""

    __slots__ = ()

    @classmethod
    def of(cls, config: Config, name: str, row: BackendRow, key: str, section: Any) -> Backend:
        """Return the configured backend: ``environments.local.sandbox`` makes it another kind."""
        if section.sandbox != "none":
            return SandboxBackend.of(config, name, row_of(section.sandbox), key, section)
        passed = {"pass_env": config.terminal.pass_env}
        return cls(name, row.name, key, passed if config.sandbox.mode == "none" else {**passed, "sandbox": config.sandbox})

    @property
    def _settings(self) -> SandboxSettings | None:
        settings: SandboxSettings | None = self.options.get("sandbox")
        return settings

    def _holding(self) -> SandboxHolding:
        from tools.environments.local.holding import SandboxHolding, sandbox_here

        settings = self._settings
        return SandboxHolding("none") if settings is None else sandbox_here(settings.mode)

    def start_early(self) -> None:
        """Start testing the sandbox."""
        from tools.environments.local.holding import start_trial

        if self._settings is not None:
            start_trial()

    @property
    def held(self) -> Mode:
        """Return the mode of the strongest sandbox that works here, up to ``sandbox.mode``."""
        return self._holding().mode

    @property
    def wanted_mode(self) -> Mode:
        """Return ``sandbox.mode``."""
        return "none" if self._settings is None else self._settings.mode

    @property
    def limits_hosts(self) -> bool:
        """Return whether ``sandbox.network`` limits hosts, and this machine supports it."""
        settings = self._settings
        return settings is not None and self._holding().by == "namespaces" and settings.network == "hosts"

    @property
    def shown(self) -> str:
        """Return a short description of the backend, for users."""
        return f"this machine{', in a sandbox' if self.held == 'workspace' else ''}"

    @property
    def model_description(self) -> str:
        """Return the description of the sandbox for a model; "" without one."""
        settings = self._settings
        if settings is None or self.held != "workspace":
            return ""
        folders = ", ".join(["the project", *settings.write, "private caches", "a private /tmp"])
        return f"this machine, in a sandbox: only {folders} can be written. {_NETWORK[settings.network]}"

    def cwd_of(self, start: str) -> str:
        """Return the folder that a session starts in, with links resolved."""
        return os.path.realpath(with_home(start))

    def state(self, faults: Mapping[str, str]) -> str:
        """Return "ready": this machine always is."""
        return "ready"

    def open(self, opening: BackendOpening) -> Environment:
        """Open an environment here, in the strongest sandbox that works, up to ``sandbox.mode``. Raises EnvironmentFailed."""
        env = {BELOW: marks_of(folders_of(opening.config))}
        options = {name: value for name, value in self.options.items() if name != "sandbox"}
        return open_environment(self.kind, cwd=opening.start, own=opening.own, env=env, **options, **self._sandbox(opening))

    def _sandbox(self, opening: BackendOpening) -> dict[str, Any]:
        """Return the options of the strongest sandbox that works, up to ``sandbox.mode``, or {}. Raises EnvironmentFailed."""
        mode, settings = self.held, self._settings
        if settings is None or mode == "none":
            return {}
        console = f"{os.environ.get('XDG_RUNTIME_DIR') or tempfile.gettempdir()}/toolcrib-console-{os.getuid()}"
        masked = [*settings.mask, *opening.protected, console]
        closed = {"sandbox": mode, "masked": masked, "closed": list(opening.closed)}
        limits: dict[str, Any] = {"processes": settings.processes, "memory_mb": settings.memory_mb}
        limits |= {"network": settings.network == "on", "session": opening.session, "records": opening.records}
        if settings.network == "hosts":
            limits["hosts"] = settings.hosts
        if mode == "own":
            return closed | limits
        from tools.environments.local.keys import keys_elsewhere
        from tools.environments.local.plan import MASKED

        for folder in folders_of(opening.config):  # only an existing folder can be protected
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        home, project = real_path(Path.home()), project_of(opening.start)
        writable = [*([] if project == home or project in home.parents else [str(project)]), *settings.write]
        reached = [os.path.realpath(with_home(path)) for path in (opening.start, *writable)]
        for reach in reached:
            for own in map(os.path.realpath, opening.protected):
                if is_within(reach, own) or (is_within(own, reach) and not Path(own).parent.exists()):
                    raise EnvironmentFailed(f"{reach} cannot be writable in a sandbox: commands could reach toolcrib's own {own}")
        keys = [key for key in keys_elsewhere(MASKED) if not any(is_within(key, folder) for folder in reached)]
        return {**closed, **limits, "masked": [*MASKED, *keys, *masked], "writable": writable, "caches": settings.caches}

    def shell(self, opener: Opener, start: str, *, cwd: str = "", container: OurContainer | None = None) -> int:
        """Run the user's shell, or one in a sandbox like that of sessions."""
        from agent.backends.person import in_sandbox, run_program

        if self.held == "none":
            return run_program([os.environ.get("SHELL") or "bash"], start)
        return in_sandbox(opener, self, start)


KIND = LocalBackend
