"""Delegates: sessions to which a session's model hands tasks by ``delegate_task``.

``interface`` is what a session sees of its delegates; ``delegates`` adds the handler that begins them, from a
``starting_point``. ``starting`` opens a delegate's session and has it work; ``background`` are those that work beside the runs
(``waiting`` keeps which), also where an ended process left them. ``delegate`` is one of them, from its task to its outcome;
``task`` is what it was told, ``budget`` what it may use.
``relaying`` brings its questions to whoever answers those of its parent, ``sharing`` gives it the parent's journal and undo.
"""

from __future__ import annotations

from toolcrib.contract.state import StateKey

TOOL, SEARCH = "delegate_task", "session_search"
CHARGED = frozenset({TOOL, SEARCH})
"""Tools whose results say what a model below the run used."""
BACKGROUND = StateKey("delegates", list)
"""Ids of the sessions of delegates in the background whose end was not delivered yet."""
