"""What a shell command would do: an abstract interpreter of bash that executes nothing.

``interpret`` lists every simple command that could be executed, with its words resolved as far as that can be told.
"""

from __future__ import annotations

from tools.approval.meaning.act import Act, Code, Fault, Meaning, Sink, Target
from tools.approval.meaning.state import Budget, NoFiles, Seen, ShellNow, Snapshot, UnknownFiles
from tools.approval.meaning.value import ANYTHING, EMPTY, HOLE, Taint, Value

__all__ = [
    "ANYTHING",
    "EMPTY",
    "HOLE",
    "Act",
    "Budget",
    "Code",
    "Fault",
    "Meaning",
    "NoFiles",
    "Seen",
    "ShellNow",
    "Sink",
    "Snapshot",
    "Taint",
    "Target",
    "UnknownFiles",
    "Value",
    "interpret",
]

_DEFAULT = Budget()


def interpret(text: str, now: ShellNow, files: Snapshot, budget: Budget = _DEFAULT) -> Meaning:
    """Never raises: what could not be looked into stands in ``faults``, what was found until then in ``acts``."""
    # The shell's package needs Budget from this one: imported at the top they would wait for each other.
    from tools.approval.meaning.start import interpreted

    return interpreted(text, now, files, budget)
