"""The contract of a contained environment: the restrictions of its sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, runtime_checkable

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.environment import Environment


@dataclass(frozen=True, slots=True)
class Containment:
    """Restrictions of an environment's sandbox. Paths are absolute, with links resolved.

    ``writable``: folders that commands can change and that outlive the sandbox: the project and granted folders.
    ``ephemeral``: folders of the sandbox's own, deleted with it: /tmp and private caches.
    ``masked``: paths that are empty in the sandbox.
    ``read_only``: paths inside writable folders that are still read-only, such as .git/hooks.
    ``has_hosts``: with the network ``hosts``, commands can now reach a host besides those of package managers.
    """

    mode: Literal["workspace", "own"]
    writable: tuple[str, ...]
    ephemeral: tuple[str, ...]
    masked: tuple[str, ...]
    read_only: tuple[str, ...]
    network: Literal["none", "hosts", "on"]
    has_hosts: bool = True


@runtime_checkable
class Contained(Protocol):
    """An environment that may run its commands in a sandbox."""

    def containment(self) -> Containment | None:
        """Return the sandbox's restrictions, or None if commands run without a sandbox."""
        ...


@runtime_checkable
class HasOutside(Protocol):
    """A contained environment that can run a command outside its sandbox."""

    def outside(self) -> Environment:
        """Return an environment on the same machine without a sandbox: the same object each time, closed with this one. It has
        its own shell, and the caller names the folder of each command. Raises EnvironmentFailed.
        """
        ...


class DeniedConnection(Protocol):
    """A connection of a command that the sandbox refused."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


@runtime_checkable
class LimitsHosts(Protocol):
    """A contained environment whose commands reach only allowed hosts, if its containment's network is ``hosts``.

    A host is a name (for all its ports), an address, or a port of this machine such as ``localhost:5432``.
    """

    async def unknown_hosts(self, hosts: Sequence[str]) -> Sequence[str]:
        """Return the hosts that commands can't reach now, each as an approval request names it.

        Raises ValueError for a text that is not a host, or a host that no user may be asked about.
        """
        ...

    def allowing(self, hosts: Sequence[str]) -> AbstractContextManager[None]:
        """Return a context manager: within it all commands of the environment reach these hosts too."""
        ...

    def denied_hosts(self, since: float) -> Sequence[DeniedConnection]:
        """Return the connections that were refused at ``since`` (``time.time()``) or later, the oldest first."""
        ...
