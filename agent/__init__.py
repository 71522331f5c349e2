"""The agent: sessions, their runs, and everything that drives them.

``api`` puts it all together and holds ``Agent``. ``process`` is what one process has, ``workspace`` a project folder in it with
its policy. ``conversation`` is a session and its runs, ``store`` what is remembered, ``cli`` the command, ``config`` its
configuration.

``model_choice`` chooses models and how they call tools, ``context`` makes what a model is sent. ``providers`` speak to servers,
``protocols`` in plain text. ``policy`` decides who may do what: allowlist, grants, approvals, confirmation of the configuration,
toolcrib's protection of itself. ``plugin_host`` finds and loads plugins and calls their hooks. ``backends`` opens environments,
``todo`` runs tools that need the session, ``undo`` and ``snapshots`` revert changes of files, ``explaining`` shows what the gate
would decide. ``events`` are what happens in a run; ``filepair`` is a file that a model writes, previewed.
``run``, ``models`` and ``plugins`` are old names of ``api``, ``model_choice.models`` and ``plugin_host.plugins``.
"""
