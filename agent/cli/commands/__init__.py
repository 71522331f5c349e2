"""Subcommands, one a file, named as the file: ``HELP``, ``configure(parser)`` and ``run(args) -> exit code``.

A plugin's subcommand is an object with the same three.
"""
