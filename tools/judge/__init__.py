"""The judge: finds what a call may do that a user must approve. It only reads, and of toolcrib it imports only the contract.

For a command, ``shell`` parses the text into a syntax tree, ``meaning`` resolves what it would execute (``languages`` parses
other languages), and ``assess`` applies the rows of ``rules``, made with ``table``, and ``path_rules``. ``writes``, ``walks`` and
``links`` find the paths that a command reaches, ``gitfolders`` those of git, and ``file_view`` is the rules' view of files.
``detect`` runs all of this within a ``budget``. For a call, ``calls`` turns its effects into ``findings``, by a ``setting``, with
``paths`` for files and ``folders`` for containment. ``installed`` finds changes of toolcrib's own code, whose locations
``own_code`` describes. ``effects`` defines how far a finding reaches, ``layers`` whether a sandbox or snapshots contain it.

``options`` parses a program's options by the grammars of ``programs``, and ``dry_runs`` recognises commands that change nothing.
``plain`` recognises commands with the same meaning in any shell, ``characters`` hidden or misleading characters. The
specification prescribes the names ``patterns`` and ``detect_dangerous_command``.

To extend it: a rule is a row in ``rules``, a program's options are a row in ``programs``, a builtin or a wrapper is a row in
``meaning``, a language is a module in ``languages``. tools/approval decides which users to ask, and stores their answers.
"""
