"""Delegates: sessions that work on tasks for a session's model, which begins them with ``delegate_task``.

``interface`` is a session's view of its delegates; ``delegates`` adds the handler that begins them, from a ``starting_point``.
``starting`` opens a delegate's session and runs it; ``background`` handles delegates that run beside their session's runs
(``waiting`` records which), also after their process ended. ``delegate`` is one delegate, from its task to its outcome;
``task`` is its task, ``budget`` its limits. ``relaying`` brings its questions to the users who answer its parent's, ``sharing``
gives it the parent's file origins and undo log.
"""

from __future__ import annotations

from toolcrib.contract.state import StateKey

TOOL, SEARCH = "delegate_task", "session_search"
CHARGED = frozenset({TOOL, SEARCH})
"""Tools whose results report the usage of another model that worked for the run."""
BACKGROUND = StateKey("delegates", list)
"""Session ids of background delegates whose end was not delivered yet."""
