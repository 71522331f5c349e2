"""The contract of a contained environment: what a sandbox holds back from its commands."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from toolcrib._dataclass import dataclass
from toolcrib._environment import Environment


@dataclass(frozen=True, slots=True)
class Containment:
    """What the sandbox of an environment holds back. Paths are absolute, links resolved.

    ``writable``: folders that commands can change and that outlive the sandbox: the project and granted folders.
    ``ephemeral``: folders of the sandbox's own, deleted with it: /tmp and private caches.
    ``masked``: paths that are empty in the sandbox.
    ``read_only``: paths inside writable folders that are read-only all the same, such as .git/hooks.
    """

    mode: Literal["workspace", "own"]
    writable: tuple[str, ...]
    ephemeral: tuple[str, ...]
    masked: tuple[str, ...]
    read_only: tuple[str, ...]
    network: Literal["none", "hosts", "on"]


@runtime_checkable
class Contained(Protocol):
    """An environment that may run its commands in a sandbox."""

    def containment(self) -> Containment | None:
        """Return what the sandbox holds back, or None if commands run without one."""
        ...


@runtime_checkable
class HasOutside(Protocol):
    """A contained environment that can run a command outside its sandbox."""

    def outside(self) -> Environment:
        """Return an environment on the same machine without a sandbox: the same object each time, closed with this one. It has a
        shell of its own, and the caller names the folder of each command. Raises EnvironmentFailed.
        """
        ...
