"""Backend: a configured way to run commands. If a kind needs code of its own, the module of the same name has a subclass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from agent.context.instructions import project_root
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import EnvironmentFailed
from toolcrib.contract.paths import real_path, with_home
from tools.environments import open_environment
from tools.environments.own_files import NONE, OwnFiles
from tools.environments.rows import BackendRow, row_of

if TYPE_CHECKING:
    from agent.config import Config
    from tools.environments.containers import OurContainer
    from tools.environments.local.holding import Mode

Opener: TypeAlias = "Callable[[Backend, str], Environment]"
"""Opens a backend, in an already chosen folder, for the session with the given id."""


@dataclass(frozen=True, slots=True)
class BackendOpening:
    """Parameters for opening an environment. ``start`` is a local folder; ``cwd``, if given, is a folder in the backend.

    ``protected`` are toolcrib's own files, ``own`` detects their hard links, ``closed`` is toolcrib's code. ``records``: the
    folder of the records of sandboxes that outlive their process; "" if this one must not.
    """

    config: Config
    start: str
    cwd: str | None = None
    session: str = ""
    protected: Sequence[str] = ()
    own: OwnFiles = NONE
    closed: Sequence[str] = ()
    records: str = ""


@dataclass(frozen=True, slots=True)
class FoundContainers:
    """Containers of one kind of backend. ``faults`` has the reason for each configured engine that does not answer."""

    containers: Sequence[OurContainer] = ()
    faults: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Backend:
    """A configured backend. This class serves plugins' backends, and kinds that differ only in their row and settings.

    ``kind`` is a name in the table, or the name of a plugin's backend; ``key`` is its section of the configuration file.
    ``options`` are the arguments for opening it.
    """

    name: str
    kind: str
    key: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, config: Config, name: str, row: BackendRow, key: str, section: object) -> Backend:
        """Return the backend of that name from a section of the configuration."""
        return cls(name, row.name, key, options_of(section))

    @property
    def row(self) -> BackendRow:
        """Return the row of the backend's kind."""
        return row_of(self.kind)

    @property
    def is_remote(self) -> bool:
        """Return whether the backend has other folders than this machine."""
        return not self.row.sees_folders

    @property
    def held(self) -> Mode:
        """Return the mode of the sandbox that commands run in on this machine: workspace, own or none."""
        return "none"

    @property
    def wanted_mode(self) -> Mode:
        """Return the configured mode of the sandbox on this machine."""
        return "none"

    @property
    def limits_hosts(self) -> bool:
        """Return whether commands reach only hosts that a user allowed."""
        return False

    @property
    def target(self) -> str:
        """Return the kind, with its host or engine if it has one. A resumed session must find the same target."""
        return self.kind

    @property
    def shown(self) -> str:
        """Return a short description of the backend, for users."""
        return self.row.about or "a plugin's"

    @property
    def model_description(self) -> str:
        """Return the description of the backend for a model; "" for plain local."""
        return f"{self.name}: {self.row.about}." if self.row.runs_here else f"{self.name}; not the person's machine."

    @property
    def fleeting(self) -> Backend:
        """Return this backend with options that make its environments keep nothing when they close."""
        return self

    @property
    def missing(self) -> str:
        """Return the missing setting that makes the backend unavailable; "" if there is none."""
        needs = self.row.needs
        return f"{self.key}.{needs.key}" if needs is not None and not self.options.get(needs.key) else ""

    def cwd_of(self, start: str) -> str:
        """Return the folder that a session's commands start in; "" if only the opened backend knows it."""
        return ""

    def start_early(self) -> None:
        """Start work in the background that opening a session will wait for."""

    def problem(self) -> str:
        """Return why the backend can't work here, without connecting; "" if no reason is known. Ignores missing settings."""
        return ""

    def state(self, faults: Mapping[str, str]) -> str:
        """Return the state of the backend; call this only if no setting is missing. ``faults``: see FoundContainers."""
        return f"not tried; to try it: toolcrib env test {self.name}"

    def offers(self) -> tuple[str, ...]:
        """Return possible values of the backend's required setting, which a service lists. Raises EnvironmentFailed."""
        return ()

    def open(self, opening: BackendOpening) -> Environment:
        """Open an environment with the backend's settings, and those fields of ``opening`` that the backend's row names.

        Raises EnvironmentFailed.
        """
        gets = {name: getattr(opening, name) for name in row_of(self.kind).gets}
        return open_environment(self.kind, cwd=opening.cwd or opening.start, **self.options, **gets)

    def shell(self, opener: Opener, start: str, *, cwd: str = "", container: OurContainer | None = None) -> int:
        """Run a shell for a user, on their terminal, to its end; return its exit code.

        ``start`` is a local folder, ``cwd`` a folder in the backend. The shell runs in ``container``, if given. Raises
        EnvironmentFailed.
        """
        raise EnvironmentFailed(f"the backend {self.name!r} has no shell for users; choose another: toolcrib env shell NAME")

    # -- containers of the kind, on any engine ---------------------------------------------------------------------

    @staticmethod
    def find_containers(configured: Iterable[Backend]) -> FoundContainers:
        """Return toolcrib's containers on the engines of these backends, and on the default engine if it answers."""
        return FoundContainers()

    @staticmethod
    def stop(container: OurContainer) -> str:
        """Stop a container that ``find_containers`` found; return the action taken. Raises EnvironmentFailed."""
        raise EnvironmentFailed(f"{container.name} can't be stopped: its backend makes no containers")

    @staticmethod
    def remove(container: OurContainer) -> None:
        """Remove a container that ``find_containers`` found. Raises EnvironmentFailed."""
        raise EnvironmentFailed(f"{container.name} can't be removed: its backend makes no containers")

    @staticmethod
    def removal(names: Sequence[str]) -> str:
        """Return the command that removes containers."""
        return "toolcrib env prune"


def options_of(section: Any) -> dict[str, Any]:
    """Return the settings of a section by their names; {} for no section."""
    return {} if section is None else {each.name: getattr(section, each.name) for each in fields(section)}


def project_of(start: str) -> Path:
    """Return the root of the project that a session starts in, with links resolved."""
    begin = real_path(with_home(start))
    return project_root(begin, begin)


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is a folder or below it, judged only by their names."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
