"""The configured backends, and a session's binding to one: the session never moves to another unless a user chooses it.

Names come from the table (tools/environments/rows.py), from sections such as environments.hosts, and from plugins. Only users
choose: by ``terminal.backend``, ``--backend``, or ``open_session(backend=...)``. ``base`` has the code that all backends share.
If a kind of backend needs its own code, the module of the same name has its class as ``KIND``. ``person`` runs a user's
programs in a backend.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from agent.backends.base import Backend, BackendOpening, FoundContainers, Opener, project_of
from agent.config import Config, sandbox_records
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import ConfigError, EnvironmentFailed, ToolcribError
from toolcrib.contract.suggest import near
from tools.environments import known_environments
from tools.environments.own_files import NONE, OwnFiles
from tools.environments.rows import LOCAL, ROWS, BackendRow

if TYPE_CHECKING:
    from tools.environments.containers import OurContainer

__all__ = ["BUILT_IN", "LOCAL", "Backend", "Backends", "Location", "kind_class", "project_of", "unavailable"]

BUILT_IN = tuple(ROWS)


@dataclass(frozen=True, slots=True)
class Location:
    """Binding of a session to a backend. ``start`` is a local folder; ``cwd``, if given, is a folder in the backend.

    ``chosen``: the backend was named for this session, so a changed default does not affect it.
    """

    backend: Backend
    start: str
    cwd: str | None = None
    chosen: bool = False

    @property
    def known_cwd(self) -> str:
        """The folder that commands start in; "" if only the opened backend knows it."""
        return self.backend.cwd_of(self.start)

    def record(self) -> dict[str, str]:
        """Return the record for the store."""
        kept = {"name": self.backend.name, "target": self.backend.target}
        if self.chosen:
            kept["chosen"] = "yes"
        if self.cwd:
            kept["cwd"] = self.cwd
        return kept


class Backends:
    """The backends that sessions can use. Raises ConfigError if two backends share a name.

    ``protected`` are toolcrib's own files: masked in sandboxes, never mounted into containers. ``own`` detects their hard
    links. ``closed`` is toolcrib's code, which is read-only in sandboxes.
    """

    def __init__(self, config: Config, protected: Sequence[str], own: OwnFiles = NONE, closed: Sequence[str] = ()) -> None:
        self._config, self.own, self._closed = config, own, list(closed)
        self._protected = list(protected)
        self._table: dict[str, Backend] = {}
        sections = config.environments
        for row in ROWS.values():
            section, key = (getattr(sections, row.section), f"environments.{row.section}") if row.section else (None, "")
            self._add(kind_class(row).of(config, row.name, row, key, section))
        for row in ROWS.values():
            for name, section in (getattr(sections, row.named) if row.named else {}).items():
                self._add(kind_class(row).of(config, name, row, f"environments.{row.named}.{name}", section))

    def _add(self, backend: Backend) -> None:
        before = self._table.setdefault(backend.name, backend)
        if before is not backend:
            raise ConfigError(f"{self._config.path}: {before.key} and {backend.key} have the same name; change the name of one")

    # -- finding backends ----------------------------------------------------------------------------------------

    @property
    def default(self) -> str:
        """The default backend's name."""
        return self._config.terminal.backend

    @property
    def named(self) -> frozenset[str]:
        """Names from the configuration, which no plugin may use."""
        return frozenset(self._table) - frozenset(BUILT_IN)

    def all(self) -> list[Backend]:
        """Return the configured backends, then those of plugins."""
        added = [Backend(name, name) for name in known_environments() if name not in self._table]
        return [*self._table.values(), *added]

    def configured(self) -> list[Backend]:
        """Return the backends that are set up, available or not.

        These are ``local``, the default and the named ones, those of plugins, and others whose required setting is given.
        """
        wanted = {self.default, *self.named, LOCAL}
        always = [row.name for row in ROWS.values() if row.needs is None]
        return [one for one in self.all() if one.name in wanted or not (one.missing or one.name in always)]

    def containers(self) -> Iterator[tuple[type[Backend], FoundContainers]]:
        """Yield the kinds that have containers, with toolcrib's containers on configured and default engines."""
        for row in ROWS.values():
            if row.makes_containers:
                kind = kind_class(row)
                yield kind, kind.find_containers(one for one in self.configured() if one.kind == row.name)

    def get(self, name: str = "") -> Backend:
        """Return a backend by name, "" for the default. Raises ConfigError for an unknown name, with the nearest one."""
        wanted = name or self.default
        known = {backend.name: backend for backend in self.all()}
        if wanted in known:
            return known[wanted]
        alike = near(wanted, known)
        meant = f"; did you mean {alike[0]!r}?" if alike else ""
        origin = self._config.origins.get("terminal.backend", str(self._config.path))
        where = "" if name else f"{origin}: terminal.backend: "
        raise ConfigError(
            f"{where}there is no backend {wanted!r}{meant} (known: {', '.join(known)}; list backends: toolcrib env)"
        )

    def start_early(self, name: str = "") -> None:
        """Start in the background the work that a backend needs to open a session. Unknown names are ignored."""
        with contextlib.suppress(ConfigError):
            self.get(name).start_early()

    def again(self, kept: Mapping[str, str], session_id: str) -> Backend:
        """Return the backend of a resumed session. Raises ToolcribError if it is not the same one as before."""
        name, was = kept["name"], kept["target"]
        begin = f"the session {session_id[:12]} ran in {name}"
        how = "choose the backend to resume it in (--backend NAME)"
        known = {backend.name: backend for backend in self.all()}
        if name not in known:
            raise ToolcribError(f"{begin} ({was}), which is no longer configured: configure it again, or {how}")
        backend = known[name]
        if backend.target != was:
            raise ToolcribError(f"{begin}, which was {was} and is now {backend.target}: change it back, or {how}")
        if name != self.default and "chosen" not in kept:
            raise ToolcribError(f"{begin}, but terminal.backend is now {self.default}: {how}")
        return backend

    # -- opening -------------------------------------------------------------------------------------------------

    def open(self, location: Location, session: str, *, continues: bool = False) -> Environment:
        """Open the environment of a session. Raises EnvironmentFailed: an unavailable backend is never replaced by another.

        ``continues``: continue with the sandbox of the session's earlier process, if background processes run in it.
        """
        backend = location.backend
        if backend.missing and backend.name in self.named:
            raise EnvironmentFailed(f"the backend {backend.name!r} is unavailable: set {backend.missing}")
        known = (self._protected, self.own, self._closed, str(sandbox_records()) if continues else "")
        return backend.open(BackendOpening(self._config, location.start, location.cwd, session, *known))

    def shell(self, backend: Backend, start: str, *, cwd: str = "", container: OurContainer | None = None) -> int:
        """Run a shell for a user in a backend, on their terminal; return its exit code. Raises EnvironmentFailed.

        ``start`` is a local folder, ``cwd`` a folder in the backend. The shell runs in ``container``, if given.
        """
        return backend.shell(self.opener(start), start, cwd=cwd, container=container)

    def opener(self, start: str) -> Opener:
        """Return a function that opens a backend in a folder."""
        return lambda backend, session: self.open(Location(backend, start), session)


def kind_class(row: BackendRow) -> type[Backend]:
    """Return the class of a kind: ``KIND`` of the module with its name, or Backend if there is no such module."""
    module = f"agent.backends.{row.name}"
    try:
        found: type[Backend] = import_module(module).KIND
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return Backend
    return found


def unavailable(backend: Backend) -> str:
    """Return why the backend is unavailable, without connecting to it; "" if no reason is known."""
    return f"set {backend.missing}" if backend.missing else backend.problem()
