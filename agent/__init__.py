"""The agent: sessions, their runs, and everything that drives them.

``api`` connects all parts and defines ``Agent``. ``process`` has the state of one process, ``workspace`` that of one project
folder, with its policy. ``conversation`` is a session and its runs, and ``store`` stores sessions. ``cli`` is the command line,
and ``config`` is the configuration.

``model_choice`` chooses models and their call style, ``context`` builds requests to a model. ``providers`` call servers,
``protocols`` read and write tool calls in plain text. ``policy`` decides who may do what: allowlist, grants, approvals,
confirmation of the configuration, toolcrib's protection of itself. ``plugin_host`` finds and loads plugins and calls their
hooks. ``backends`` opens environments, ``todo`` handles tools that need the session, ``undo`` and ``snapshots`` revert file
changes, ``explaining`` shows what the gate would decide. ``events`` are the events of a run; ``filepair`` previews a file that
a model writes. ``run``, ``models`` and ``plugins`` are old names of ``api``, ``model_choice.models`` and
``plugin_host.plugins``.
"""
