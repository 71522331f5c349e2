"""An abstract interpreter of bash that executes nothing: it finds the effects that a shell command would have.

``interpret`` lists every simple command that could be executed, with its words resolved as far as they are known. Where
they are not, it lists more rather than less, with a HOLE in it, or reports a Fault.

Something new:

- a builtin: a row of ``builtins.TABLE``; those about variables stand in ``declare`` and ``reading``
- a program that runs another one: a row of ``wrappers.WRAPPERS``; where no row can say it, a function in
  ``specials.SPECIALS`` (lists of arguments: ``feeding``; containers: ``containers``, and what
  they are given of the host: ``mounts``; build files: ``recipes``)
- a filter, whose output follows from its input: ``filters.FILTERS``; other output: ``output``; files it writes: ``effects``
- an interpreter of another language: ``interpreters``, and its reader in tools/approval/languages

What is where:

- given and found: ``state``, ``act``; texts that are known in part: ``value``
- the walk: ``start``, ``run`` (over the tree), ``base`` (limits, the list of acts), ``simple`` (simple commands), ``flow``
  (if, case, loops, functions), ``conditions``, ``streams`` (redirects); ``shellstate`` is the shell at one moment of it
- words: ``expand``, ``braces``, ``parameters`` with ``transforms`` and ``patterns``, ``arithmetic``
- variables: ``variables`` reads, ``assigning`` sets
- programs: ``external``, ``code`` (what they evaluate), ``ending`` (what they leave and print), ``filestate`` (files)

Each imports only what stands below it; what stands above is reached through the ``Interpreter`` that every function is given.
Whether bash executes anything that is not listed is what tests/fuzz/shell_meaning.py looks for.
"""

from __future__ import annotations

from tools.approval.meaning.act import Act, Meaning
from tools.approval.meaning.state import Budget, NoFiles, Seen, ShellNow, Snapshot, UnknownFiles
from tools.approval.meaning.value import HOLE, Taint

__all__ = [
    "HOLE",
    "Act",
    "Budget",
    "Meaning",
    "NoFiles",
    "Seen",
    "ShellNow",
    "Snapshot",
    "Taint",
    "UnknownFiles",
    "interpret",
]

_DEFAULT = Budget()


def interpret(text: str, now: ShellNow, files: Snapshot, budget: Budget = _DEFAULT) -> Meaning:
    """Never raises: what could not be looked into stands in ``faults``, what was found until then in ``acts``."""
    # The shell's package needs Budget from this one: imported at the top they would wait for each other.
    from tools.approval.meaning.start import interpreted

    return interpreted(text, now, files, budget)
