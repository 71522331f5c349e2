"""The table of built-in backends: one row of plain facts for each. Reading it imports no backend.

The rest is code: ``agent/backends/NAME.py`` configures a backend, and the function in ``opener`` opens its environments. A
plugin's backend has a row of defaults: it counts as uncontained, and its folders as different from this machine's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.environment import Environment

Factory: TypeAlias = Callable[..., Environment]

LOCAL = "local"
"""The default backend. Sessions that were stored before other backends existed ran in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededSetting:
    """The setting without which a backend is unavailable. ``toolcrib setup`` reads it from ``--KEY METAVAR`` or asks for it.

    ``offered_by`` names the service that lists values, which ``Backend.offers`` queries; "" if there is none.
    """

    key: str
    metavar: str
    help: str
    question: str
    choice: str = ""
    """The question if there are several values."""
    only: str = ""
    """The message if there is only one value, with ``{}`` for it."""
    offered_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendProgram:
    """A program that ``toolcrib doctor`` looks for. ``packages``: package manager -> name of its package, if not ``name``."""

    name: str
    without: str
    packages: Mapping[str, str]
    variable: str = ""
    """An environment variable. If it is set or ``socket`` exists, the program is not needed; ``instead`` is the message then."""
    socket: str = ""
    instead: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendRow:
    """The facts of a backend. By default it counts as uncontained, and shares nothing with this machine."""

    name: str
    opener: str = ""
    """The function that opens it, as ``folder:function`` below this package; "" if another backend's function opens it."""
    gets: frozenset[str] = frozenset()
    """Arguments that toolcrib passes to the opener besides the configuration: own, protected, session."""
    about: str = ""
    """Words that explain the name in lists."""
    manual: str = ""
    """The text of its reference page, in Markdown."""
    extra: str = ""
    """The extra of toolcrib that installs its libraries."""

    is_contained: bool = False
    """Commands cannot reach toolcrib's own files, so users who do not own this machine may run them."""
    runs_here: bool = False
    """Commands run on this machine, so snapshots cover their changes, and the model reads which system this machine has."""
    sees_folders: bool = False
    """Commands see folders of this machine, under the same paths."""
    has_mode: bool = False
    """The section ``sandbox`` configures its sandbox."""
    identities: frozenset[str] = frozenset()
    """Names of its environments that results need not show, because they are this machine."""

    section: str = ""
    """The section of ``environments`` with its settings."""
    named: str = ""
    """The section of ``environments`` with more backends of its kind, by name."""
    needs: NeededSetting | None = None
    makes_containers: bool = False
    """Its sessions have containers that outlive a killed process; ``toolcrib env`` lists and stops them."""
    is_tried_at_setup: bool = False
    """Opening it is the only test of whether it works, and is quick."""
    program: BackendProgram | None = None


_LOCAL = BackendRow(
    name=LOCAL,
    opener="local:open_local",
    gets=frozenset(["own"]),
    about="this machine",
    manual="""\
Commands run on this machine with your rights, in one bash that keeps its folder, variables and functions between calls. Dangerous
commands need approval. `sandbox.mode: workspace` puts all commands in a sandbox.""",
    runs_here=True,
    sees_folders=True,
    has_mode=True,
    identities=frozenset([LOCAL, f"{LOCAL}:workspace", f"{LOCAL}:own"]),
    section="local",
)
_BUBBLEWRAP = BackendRow(
    name="bubblewrap",
    about="a sandbox on this machine",
    manual="""\
Commands run on this machine in a sandbox (Linux). They can write only to the working folder, `environments.local.writable`,
private caches and a private `/tmp`. Paths in `masked` are empty, and there is no network without `network: true`. The sandbox
needs no other program; it is named after bubblewrap, which made it in earlier versions. `toolcrib doctor` reports whether the
kernel allows it.""",
    is_contained=True,
    runs_here=True,
    sees_folders=True,
    section="local",
    named="sandboxes",
    is_tried_at_setup=True,
)
_DOCKER = BackendRow(
    name="docker",
    opener="docker:open_docker",
    gets=frozenset(["own", "protected", "session"]),
    manual="""\
Commands run in a container of `environments.docker.image`, through the Docker API. By default they can read and write the
folder that the session starts in; `environments.docker.project` can limit that to `ro` or `none`. They see other folders
only if `mounts` names them, and never toolcrib's own files. There is no network unless `network` names one. `toolcrib env`
lists toolcrib's containers, and `toolcrib env prune` removes leftover and old ones. The backend needs an engine that this
account may use, at `DOCKER_HOST` or the usual socket.""",
    is_contained=True,
    sees_folders=True,
    section="docker",
    named="containers",
    needs=NeededSetting(
        key="image",
        metavar="NAME",
        help="the image that containers are made from",
        question="the image, such as debian:12, which the engine must have",
        choice="Which image are containers made from? It needs bash.",
        only="the engine's only image is {}",
        offered_by="the docker engine",
    ),
    makes_containers=True,
    program=BackendProgram(
        name="docker",
        without="the backend docker is unavailable without a Docker engine",
        packages={"apt-get": "docker.io", "dnf": "moby-engine"},
        variable="DOCKER_HOST",
        socket="/var/run/docker.sock",
        instead="a docker engine, without its command, which toolcrib does not need",
    ),
)
_SSH = BackendRow(
    name="ssh",
    opener="ssh:open_ssh",
    manual="""\
Commands run on another host, over one persistent connection. Host keys are checked against `known_hosts`. If the connection is
interrupted and recovers, the session continues. If it is lost, toolcrib reports that, and that a command may have run.""",
    is_contained=True,
    section="ssh",
    named="hosts",
    needs=NeededSetting(
        key="host",
        metavar="HOST",
        help="the host's name in ~/.ssh/config or DNS",
        question="the host: its name, its address, or its name in ~/.ssh/config",
    ),
)
ROWS: Mapping[str, BackendRow] = {row.name: row for row in (_LOCAL, _BUBBLEWRAP, _DOCKER, _SSH)}
"""The table, in the order that lists show."""
HERE: frozenset[str] = frozenset().union(*(row.identities for row in ROWS.values()))
"""Names of environments that are this machine, with or without a sandbox."""


def row_of(name: str) -> BackendRow:
    """Return the row of a backend; for a plugin's backend, a row of defaults."""
    return ROWS.get(name) or BackendRow(name=name)


def needed_settings() -> dict[str, dict[str, NeededSetting]]:
    """Return the settings that backends need: key -> backend name -> its setting of that key."""
    found: dict[str, dict[str, NeededSetting]] = {}
    for row in ROWS.values():
        if row.needs is not None:
            found.setdefault(row.needs.key, {})[row.name] = row.needs
    return found


def listed() -> str:
    """Return the backend names with their explanations, for the user."""
    return ", ".join(f"{row.name} ({row.about})" if row.about else row.name for row in ROWS.values())
