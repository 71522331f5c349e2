"""The agent: sessions, their runs, and everything that drives them.

``run`` puts it all together and holds ``Agent``. ``crib`` is what one process has, ``workspace`` a project folder in it with
its policy, ``conversation`` a session and its runs, ``store`` what is remembered. ``cli`` is the command, ``config`` its
configuration.

The model: ``models`` chooses, ``calling`` how it calls tools, ``fallback`` the next one; ``catalog`` lists what there is.
``providers`` speak to servers and ``protocols`` in plain text; ``prompt``, ``retry`` and ``prices`` are about each request.
Tools: ``granting`` says which a session has, ``handlers`` run those that need the session, ``undo`` reverts changes of files.
Approvals: ``allowlist``, ``grants``, ``approvals``, ``smart``, ``explaining`` (what the gate would say), ``permissions`` (what it
goes by for whom), ``allowing``; ``confirming`` says what of the configuration a person agreed to, and ``below`` keeps what a
session runs from changing any of it.
Backends: ``backends``, ``backend_check``. Plugins: ``plugins`` loads them, ``lifecycle`` starts them,
``observers`` tells them of runs, ``process`` serves callers without a Crib. ``events`` are what happens in a run; ``filepair`` is
a file that a model writes, previewed.
"""
