"""Approval: what a call would do, whether a person must agree, and what was agreed before.

A command's way: ``shell`` (text to a syntax tree), ``meaning`` (to what it would execute, sources of other languages read by
``languages``), ``assess`` (held against ``rules``, whose rows ``table`` makes, and against ``path_rules``). A call's way:
``judge`` (its effects to findings, by a ``setting``), ``gate`` (asks or refuses), ``offers`` and ``grants`` (what an answer may
cover, and does).
Something new: a rule is a row in ``rules``, a builtin or a wrapper a row in ``meaning``, a language a module in ``languages``.
"""
