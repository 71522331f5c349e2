"""The command ``toolcrib``.

``app`` leads from a command line to an exit code; ``commands`` has a file for each subcommand, ``options`` and ``offer`` what
they share. The chat: ``conversation``, ``slash`` (with ``words``), ``switching``, ``complete``, ``terminal``. One task:
``oneshot``, ``jsonl``. What a person sees: ``view``, ``live``, ``markdown``, ``render``, ``escape``, ``trace``, ``faults``,
``logs``, ``images``. What they are asked: ``ask``, ``answering`` and ``parked`` from elsewhere. The rest serves one command
each.
"""

from __future__ import annotations


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit code. ``--version`` loads nothing else, to be as quick as Python itself."""
    import sys

    words = sys.argv[1:] if argv is None else list(argv)
    if words in (["--version"], ["-V"]):
        from agent._version import __version__

        print(f"toolcrib {__version__}")
        return 0
    try:
        from agent.cli.app import run

        return run(words)
    except KeyboardInterrupt:  # while the modules are still being loaded; later ones are told of in order
        print("toolcrib: interrupted", file=sys.stderr)
        return 130
