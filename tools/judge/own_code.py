"""Places of toolcrib's own code, as the judge is told: the way it is found is in tools/installed.py."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.contract.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Installed:
    """``closed``: absolute folders and files, each as it is named and as it really is. ``checkout``: the working folder of
    toolcrib's own sources where it runs from one, else "". ``programs``: the folders in which the programs of its interpreter
    lie, pip too. ``path``: PATH as commands find it at first. ``sessions``: names of the multiplexer's session that it
    runs in, and of its windows; ``*`` where they are unknown.
    """

    closed: tuple[str, ...] = ()
    checkout: str = ""
    programs: Sequence[str] = ()
    path: str = ""
    sessions: Sequence[str] = ()
