"""An abstract interpreter of bash that executes nothing: it finds the effects that a shell command would have.

``interpret`` lists every simple command that could be executed, with its words resolved as far as they are known. If words are
unknown, it lists too many commands rather than too few, with a HOLE for each unknown part, or reports a Fault.

To add something, add a row to the module of its topic (``tables`` lists which modules fill which table, and what a row is):

- a builtin: ``BUILTINS`` in ``builtins``; about variables: in ``declare`` and ``file_reads``
- a program that runs another one: ``WRAPPERS`` in ``wrappers``; if no row fits, a function: ``SPECIALS`` in ``specials``
  (lists of arguments: in ``feeding``; containers: in ``containers``, and the host's folders in them: ``mounts``)
- options of a program: tools/judge/programs.py; a program that no table describes: ``tails``
- a program that runs build files: ``RECIPES`` in ``recipes``; one that compiles sources: ``sources``
- a filter, whose output follows from its input: ``FILTERS`` in ``filters``; other output: ``OUTPUTS`` in ``output``; files that
  a program leaves: ``EFFECTS`` in ``effects``, or ``CHANGES`` in ``changes`` if they are unknown
- an interpreter of another language: ``INTERPRETERS`` in ``interpreters``, and its parser: a module of tools/judge/languages

The modules:

- input and output: ``state``, ``act``; partly known texts: ``value``
- the walk: ``start``, ``run`` (over the tree), ``base`` (texts, the list of acts), ``simple`` (simple commands), ``flow``
  (if, case, loops, functions), ``conditions``, ``streams`` (redirects); ``shellstate`` is the shell at one moment of it
- words: ``expand``, ``braces``, ``parameters`` with ``transforms`` and ``patterns``, ``arithmetic``
- variables: ``variables`` reads, ``assigning`` sets
- programs: ``external``, ``code`` (evaluated text), ``ending`` (their files and output)
- files: ``journal`` (the line's changes), ``filestate`` (reads and writes), ``effects`` (of programs), ``changes`` (in unknown
  ways), ``unknown_programs``

A module imports only modules of a lower layer, and reaches the others through the ``Walker`` that every function gets. The class
``Walker``, in ``walk``, describes the state of a walk: ``limits`` and ``found`` belong to the whole walk, ``context`` to a part
of the text. ``with it.inside() as inner:`` changes the context for that part and restores it afterwards.

tests/fuzz/shell_meaning.py checks whether bash executes anything that is not listed.
"""

from __future__ import annotations

from collections.abc import Container

from tools.judge.budget import Budget
from tools.judge.meaning.act import Act, Meaning
from tools.judge.meaning.state import NoFiles, Seen, ShellNow, Snapshot, UnknownFiles
from tools.judge.meaning.value import HOLE, Taint

__all__ = ["HOLE", "Act", "Budget", "Meaning", "NoFiles", "Seen", "ShellNow", "Snapshot", "Taint", "UnknownFiles", "interpret"]

_DEFAULT = Budget()


def interpret(
    text: str, now: ShellNow, files: Snapshot, budget: Budget = _DEFAULT, programs: Container[str] = frozenset()
) -> Meaning:
    """Interpret a command. Never raises: unreadable parts are in ``faults``, and everything found before them in ``acts``.

    ``programs``: names that the rules know. Such a name among the arguments of an unknown program may begin a command.
    """
    # The first command imports the rest of the package.
    from tools.judge.meaning.start import interpreted

    return interpreted(text, now, files, budget, programs)
