"""The judge: what a call would do, as findings. It reads, and never runs; it imports the contract and nothing else of the tools.

A command's way: ``shell`` (text to a syntax tree), ``meaning`` (to what it would execute, sources of other languages read by
``languages``), ``assess`` (held against ``rules``, whose rows ``table`` makes, and against ``path_rules``; ``writes``,
``walks`` and ``links`` say which paths a command reaches, ``gitfolders`` which are git's own, ``file_view`` how rules see files),
together ``detect``, within a ``budget``. A call's way: ``calls`` (its effects to ``findings``, by a ``setting``; ``paths`` for
files; ``folders``: what lies below what). ``installed`` is about changes of toolcrib's own code, which ``own_code`` describes.
``effects`` says how far a finding reaches, ``layers`` whether a sandbox or snapshots hold it.
``options`` reads a program's options by the grammars of ``programs``, ``dry_runs`` says when nothing is done. ``plain`` knows
commands that mean the same to any shell, ``characters`` what hides or deceives in a text. The specification's names:
``patterns``, and ``detect_dangerous_command``.

Something new: a rule is a row in ``rules``, the options of a program a row of ``programs``, a builtin or a wrapper a row in
``meaning``, a language a module in ``languages``.
Who is asked about findings, and what was agreed, is tools/approval.
"""
