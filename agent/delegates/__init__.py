"""Delegates: sessions to which a session's model hands tasks by ``delegate_task``.

``of_session`` is what a session knows of them, and all that loads where there is none. ``delegates`` keeps them: the handler,
those that work now, those in the background (``waiting`` keeps which), and what an ended process left. ``delegate`` is one of
them, from its task to its outcome; ``orders`` is what it was told, ``budget`` what it may use.
``relaying`` brings its questions to whoever answers those of its parent, ``sharing`` gives it the parent's journal and undo.
"""
