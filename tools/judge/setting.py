"""The context of a session's calls for the judge."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolcrib.contract.dataclass import dataclass
from tools.judge.findings import MAX_COMMAND_CHARS
from tools.judge.own_code import Installed

if TYPE_CHECKING:  # the table loads with the first command
    from tools.judge.table import Rule


@dataclass(frozen=True, slots=True)
class Setting:
    """The inputs of a verdict besides the call.

    ``protected`` are toolcrib's own folders, absolute; ``home`` is the home of the account that commands run as, "" if unknown;
    ``rules`` are the operator's rows, checked in addition to the table's. ``installed`` is toolcrib's own code, which commands
    may read, but not change without approval.
    """

    protected: Sequence[str] = ()
    max_chars: int = MAX_COMMAND_CHARS
    home: str = ""
    rules: Sequence[Rule] = ()
    installed: Installed = Installed()


def person_home() -> str:
    """Return the home of this process's account; "" if it has none."""
    home = posixpath.expanduser("~")
    return home if home.startswith("/") else ""
