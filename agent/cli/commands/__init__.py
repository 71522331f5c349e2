"""Subcommands, one in each file, with the file's name: ``HELP``, ``configure(parser)`` and ``run(args) -> exit code``.

A plugin's subcommand is an object with the same three attributes.
"""
