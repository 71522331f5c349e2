"""Paths of toolcrib's own code, for the judge; tools/installed.py finds them."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.contract.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Installed:
    """Paths of the installed toolcrib.

    ``closed``: absolute folders and files, each as named and as real path. ``checkout``: the folder of the checkout that
    toolcrib runs from, "" if it runs from an installation. ``programs``: the folders with its interpreter's programs and pip.
    ``path``: PATH when toolcrib started. ``sessions``: names of its own multiplexer session and of the windows there;
    ``*`` if they are unknown.
    """

    closed: tuple[str, ...] = ()
    checkout: str = ""
    programs: Sequence[str] = ()
    path: str = ""
    sessions: Sequence[str] = ()
