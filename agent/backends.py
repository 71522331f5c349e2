"""Backends by the configuration, and a session's binding to one: it never runs elsewhere unless a person says so.

Names are ``local``, ``bubblewrap``, ``docker``, ``ssh``, those of environments.sandboxes, .containers and .hosts, and what
plugins add. Only people choose: by ``terminal.backend``, ``--backend``, or ``open_session(backend=...)``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.config import Config, SandboxSettings
from agent.context.instructions import project_root
from agent.policy.self_protection import BELOW, folders_of, marks_of
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import ConfigError, EnvironmentFailed, ToolcribError
from toolcrib.contract.suggest import near
from tools.environments import known_environments, open_environment
from tools.environments.own_files import NONE, OwnFiles

if TYPE_CHECKING:
    from tools.environments.local.holding import SandboxHolding

LOCAL, BUBBLEWRAP, DOCKER, SSH = "local", "bubblewrap", "docker", "ssh"
BUILT_IN = (LOCAL, BUBBLEWRAP, DOCKER, SSH)
_NETWORK = {
    "on": "There is network.",
    "none": "There is no network.",
    "hosts": "It reaches only hosts that the user allowed, and asks about others.",
}
_DEFAULT_ENGINE = "unix:///var/run/docker.sock"


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend. ``kind`` is one of BUILT_IN, or a plugin's name; ``key`` its section of the file. ``options`` open it."""

    name: str
    kind: str
    key: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_remote(self) -> bool:
        """Return whether the backend's folders are others than this machine's."""
        return self.kind not in (LOCAL, BUBBLEWRAP, DOCKER)

    @property
    def held(self) -> str:
        """Return the mode of the sandbox in which this machine holds commands: workspace, own or none."""
        return self._holding().mode

    def _holding(self) -> SandboxHolding:
        from tools.environments.local.holding import SandboxHolding, sandbox_here

        settings = self.options.get("sandbox")
        return SandboxHolding("none") if settings is None or self.kind != LOCAL else sandbox_here(settings.mode)

    @property
    def limits_hosts(self) -> bool:
        """Return whether commands reach only the hosts that a person allowed."""
        return self._holding().by == "namespaces" and self.options["sandbox"].network == "hosts"

    @property
    def target(self) -> str:
        """Name the host or the engine: a resumed session must find the same one, whatever else was changed."""
        match self.kind:
            case "ssh":
                user, port = self.options["user"], self.options["port"]
                return f"ssh:{user}@{self.options['host']}:{port}".replace(":@", ":").removesuffix(":0")
            case "docker":
                return f"docker:{self.options['host'] or os.environ.get('DOCKER_HOST', '') or _DEFAULT_ENGINE}"
            case _:
                return self.kind

    @property
    def shown(self) -> str:
        """Describe the backend in a few words, for people."""
        match self.kind:
            case "local":
                return f"this machine{', in a sandbox' if self.held == 'workspace' else ''}"
            case "bubblewrap":
                return f"a sandbox on this machine, {'with' if self.options['network'] else 'no'} network"
            case "docker":
                return f"a container of {self.options['image'] or 'no image'}, network {self.options['network']}"
            case "ssh":
                return self.target.removeprefix("ssh:") or "no host"
            case _:
                return "a plugin's"

    @property
    def fleeting(self) -> Backend:
        """Return this backend without anything kept."""
        return replace(self, options={**self.options, "keep": "remove"}) if self.kind == DOCKER else self

    @property
    def missing(self) -> str:
        """Return the setting without which the backend is unavailable; "" where there is none."""
        wanted = {DOCKER: "image", SSH: "host"}.get(self.kind, "")
        return f"{self.key}.{wanted}" if wanted and not self.options[wanted] else ""

    @property
    def model_description(self) -> str:
        """Word the backend for a model; "" for plain local."""
        options = self.options
        match self.kind:
            case "local":
                if self.held != "workspace":
                    return ""
                settings = options["sandbox"]
                folders = ", ".join(["the project", *settings.write, "private caches", "a private /tmp"])
                net = _NETWORK[settings.network]
                return f"this machine, in a sandbox: only {folders} can be written. {net}"
            case "bubblewrap":
                folders = ", ".join(["the working folder", *options["writable"], "/tmp"])  # noqa: S108 - named, not used
                net = "There is network." if options["network"] else "There is no network."
                return f"this machine, in a sandbox: only {folders} can be written. {net}"
            case "docker":
                return _told_of_container(options)
            case "ssh":
                return f"another host, {self.target.removeprefix('ssh:')}, over ssh; not the person's machine."
            case _:
                return f"{self.name}; not the person's machine."


@dataclass(frozen=True, slots=True)
class Location:
    """Binding of a session to a backend. ``start`` is a folder of this machine, ``cwd`` one over there, if one was named.

    ``chosen``: somebody named the backend for this session, so that another default does not count for it.
    """

    backend: Backend
    start: str
    cwd: str | None = None
    chosen: bool = False

    @property
    def known_cwd(self) -> str:
        """The folder that commands start in; "" where only the opened backend can tell."""
        return os.path.realpath(Path(self.start).expanduser()) if self.backend.kind == LOCAL else ""

    def record(self) -> dict[str, str]:
        """Return the record for the store."""
        kept = {"name": self.backend.name, "target": self.backend.target}
        if self.chosen:
            kept["chosen"] = "yes"
        if self.cwd:
            kept["cwd"] = self.cwd
        return kept


class Backends:
    """All backends. ``protected`` are our own files: masked in sandboxes, never mounted into containers. ``own`` knows their
    hard links. ``closed`` is our code, which is read-only in sandboxes.

    Raises ConfigError for a name that stands for two backends.
    """

    def __init__(self, config: Config, protected: Sequence[str], own: OwnFiles = NONE, closed: Sequence[str] = ()) -> None:
        self._config, self.own, self._closed = config, own, list(closed)
        self._protected = list(protected)
        self._table: dict[str, Backend] = {}
        backends = config.environments
        sandbox = {name: getattr(backends.local, name) for name in ("writable", "masked", "network")}
        passed = {"pass_env": config.terminal.pass_env}
        boxed = {**sandbox, **passed}
        tight = backends.local.sandbox == BUBBLEWRAP
        plain = passed if config.sandbox.mode == "none" else {**passed, "sandbox": config.sandbox}
        self._add(Backend(LOCAL, BUBBLEWRAP if tight else LOCAL, "environments.local", boxed if tight else plain))
        self._add(Backend(BUBBLEWRAP, BUBBLEWRAP, "environments.local", boxed))
        self._add(Backend(DOCKER, DOCKER, "environments.docker", _options(backends.docker)))
        self._add(Backend(SSH, SSH, "environments.ssh", _options(backends.ssh)))
        for name, box in backends.sandboxes.items():
            self._add(Backend(name, BUBBLEWRAP, f"environments.sandboxes.{name}", {**_options(box), **passed}))
        for name, container in backends.containers.items():
            self._add(Backend(name, DOCKER, f"environments.containers.{name}", _options(container)))
        for name, host in backends.hosts.items():
            self._add(Backend(name, SSH, f"environments.hosts.{name}", _options(host)))

    def _add(self, backend: Backend) -> None:
        before = self._table.setdefault(backend.name, backend)
        if before is not backend:
            raise ConfigError(f"{self._config.path}: {before.key} and {backend.key} have one name; rename one of them")

    # -- which there are -----------------------------------------------------------------------------------------

    @property
    def default(self) -> str:
        """The name that sessions take where nobody chooses."""
        return self._config.terminal.backend

    @property
    def named(self) -> frozenset[str]:
        """Names that the configuration gave, which no plugin may take."""
        return frozenset(self._table) - frozenset(BUILT_IN)

    def all(self) -> list[Backend]:
        """List the configured backends, then those of plugins."""
        added = [Backend(name, name) for name in known_environments() if name not in self._table]
        return [*self._table.values(), *added]

    def configured(self) -> list[Backend]:
        """List the backends that somebody set up: named ones and the default one, available or not."""
        wanted = {self.default, *self.named}
        return [
            backend for backend in self.all() if backend.name in wanted or not (backend.missing or backend.name == BUBBLEWRAP)
        ]

    def get(self, name: str = "") -> Backend:
        """Return that backend, without a name the default one. Raises ConfigError for an unknown one, with the nearest."""
        wanted = name or self.default
        known = {backend.name: backend for backend in self.all()}
        if wanted in known:
            return known[wanted]
        alike = near(wanted, known)
        meant = f"; did you mean {alike[0]!r}?" if alike else ""
        origin = self._config.origins.get("terminal.backend", str(self._config.path))
        where = "" if name else f"{origin}: terminal.backend: "
        raise ConfigError(f"{where}there is no backend {wanted!r}{meant} (known: {', '.join(known)}; `toolcrib env` lists them)")

    def again(self, kept: Mapping[str, str], session_id: str) -> Backend:
        """Return the backend of a resumed session. Raises ToolcribError where that would be another one than it was."""
        name, was = kept["name"], kept["target"]
        begin = f"the session {session_id[:12]} ran in {name}"
        how = "name the backend to resume it in (--backend NAME)"
        known = {backend.name: backend for backend in self.all()}
        if name not in known:
            raise ToolcribError(f"{begin} ({was}), which is not configured any more: configure it again, or {how}")
        backend = known[name]
        if backend.target != was:
            raise ToolcribError(f"{begin}, which was {was} and is {backend.target} now: change it back, or {how}")
        if name != self.default and "chosen" not in kept:
            raise ToolcribError(f"{begin}, and terminal.backend is {self.default} now: {how}")
        return backend

    # -- opening -------------------------------------------------------------------------------------------------

    def open(self, location: Location, session: str) -> Environment:
        """Open the environment of a session. Raises EnvironmentFailed: an unavailable backend is never replaced by another."""
        backend, start, cwd = location.backend, location.start, location.cwd
        if backend.missing and backend.key not in ("environments.docker", "environments.ssh"):
            raise EnvironmentFailed(f"the backend {backend.name!r} is unavailable: set {backend.missing}")
        options = dict(backend.options)
        match backend.kind:
            case "local":
                env = {BELOW: marks_of(folders_of(self._config))}
                options.pop("sandbox", None)
                return open_environment(LOCAL, cwd=start, own=self.own, env=env, **options, **self._held(backend, start))
            case "bubblewrap":
                return self._sandbox(start, options)
            case "docker":
                known = {"protected": self._protected, "own": self.own}
                return open_environment(DOCKER, cwd=start, session=session, **known, **options)
            case "ssh":
                return open_environment(SSH, **(options if cwd is None else {**options, "cwd": cwd}))
            case _:
                return open_environment(backend.kind, cwd=cwd or start)

    def _held(self, backend: Backend, start: str) -> dict[str, Any]:
        """Return the options of the sandbox of ``local``, as strong as this machine can hold it. Raises EnvironmentFailed."""
        mode = backend.held
        if mode == "none":
            return {}
        settings: SandboxSettings = backend.options["sandbox"]
        console = f"{os.environ.get('XDG_RUNTIME_DIR') or tempfile.gettempdir()}/toolcrib-console-{os.getuid()}"
        closed = {"sandbox": mode, "masked": [*settings.mask, *self._protected, console], "closed": self._closed}
        limits: dict[str, Any] = {"processes": settings.processes, "memory_mb": settings.memory_mb}
        limits["network"] = settings.network == "on"
        if settings.network == "hosts":
            limits["hosts"] = settings.hosts
        if mode == "own":
            return closed | limits
        from tools.environments.local.keys import keys_elsewhere
        from tools.environments.local.plan import MASKED

        for folder in folders_of(self._config):  # what is absent can't be closed
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        home, project = Path.home().resolve(), project_of(start)
        writable = [*([] if project == home or project in home.parents else [str(project)]), *settings.write]
        reached = [os.path.realpath(Path(path).expanduser()) for path in (start, *writable)]
        for reach in reached:
            for own in map(os.path.realpath, self._protected):
                if _within(reach, own) or (_within(own, reach) and not Path(own).parent.exists()):
                    raise EnvironmentFailed(f"{reach} can't be written in a sandbox: toolcrib's own {own} would be in reach")
        keys = [key for key in keys_elsewhere(MASKED) if not any(_within(key, folder) for folder in reached)]
        masked = [*MASKED, *keys, *closed["masked"]]
        return {**closed, **limits, "masked": masked, "writable": writable, "caches": settings.caches}

    def _sandbox(self, start: str, options: Mapping[str, Any]) -> Environment:
        return open_environment(LOCAL, cwd=start, sandbox=BUBBLEWRAP, own=self.own, **self.sandbox_options(start, options))

    def sandbox_options(self, start: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Add masks of our own files. Raises EnvironmentFailed where a writable folder would bring them into reach."""
        from tools.environments.local.plan import MASKED

        for folder in (start, *options["writable"]):
            real = os.path.realpath(Path(folder).expanduser())
            for own in map(os.path.realpath, self._protected):
                if _within(real, own) or _within(own, real):
                    raise EnvironmentFailed(
                        f"{real} can't be written in a sandbox: toolcrib's own {own} would be in reach. "
                        "Start in a folder of the project"
                    )
        return {**options, "masked": [*MASKED, *options["masked"], *self._protected]}


def project_of(start: str) -> Path:
    """Return the root of the project that a session starts in, with links resolved."""
    begin = Path(start).expanduser().resolve()
    return project_root(begin, begin)


def _told_of_container(options: Mapping[str, Any]) -> str:
    mounts = [mount.split(":") for mount in options["mounts"] if mount.endswith(":rw")]
    project = ["the working folder (the person's)"] if options["project"] == "rw" else []
    kept = [*project, *(mount[-2] for mount in mounts)]
    files = f"Only {', '.join([*kept, '/tmp'])} can be written."  # noqa: S108 - named, not used
    if not options["read_only"]:
        files = f"What is written is gone at the end{', but for ' * bool(kept)}{', '.join(kept)}."
    net = "It has no network." if options["network"] == "none" else "It has network."
    return f"a docker container of the image {options['image']}, not the person's machine. {files} {net}"


def _options(section: Any) -> dict[str, Any]:
    return {each.name: getattr(section, each.name) for each in fields(section)}


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def unavailable(backend: Backend) -> str:
    """Return why the backend is unavailable, as far as that is seen without connecting to it; "" where nothing is seen."""
    if backend.missing:
        return f"set {backend.missing}"
    if backend.kind == BUBBLEWRAP:
        from tools.environments.local.holding import sandbox_here

        held = sandbox_here("workspace")
        return "" if held.mode == "workspace" else f"{held.why_not_more}: {held.fix}"
    if backend.kind == DOCKER:
        from tools.environments.docker.admin import engine_of

        engine = engine_of(backend.options["host"])
        path = engine.removeprefix("unix://")
        return f"no docker engine listens at {path}" if path != engine and not Path(path).exists() else ""
    return ""
