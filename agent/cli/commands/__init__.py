"""One file a subcommand: ``HELP``, ``configure(parser)`` and ``run(args) -> exit code``, as a plugin's has too."""
