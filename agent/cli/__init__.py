"""The command ``toolcrib``.

``app`` leads from a command line to an exit code; ``commands`` has a file for each subcommand, ``options`` and ``offer`` what
they share; ``hidden`` closes the process to others. The chat: ``conversation``, to which ``commands.chat`` gives the commands
of ``slash`` (with ``words``, ``session_commands``, ``switching``); ``attaching`` and ``own_command`` (with ``beside``),
``complete`` (with ``filenames``), ``terminal``; on a terminal that can take back what it has shown, ``interactive``,
``liveview`` and ``calls``, on the rows of ``screen``. One task: ``oneshot``, ``piped``, ``jsonl``. What a person sees
elsewhere: ``view``, ``render``, ``escape``, ``trace``, ``faults``, ``logs``, ``images``, ``explained``. What they are asked:
``ask``, ``answering`` and ``parked`` from elsewhere. The rest serves one command each.
"""

from __future__ import annotations

_OBJECTS = (100_000, 2, 2)
"""Thresholds of the garbage collector. A start makes nearly as many objects, which stay: by Python's own thresholds (700, 10, 10)
they would be searched for cycles a hundred times.
"""


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit code. ``--version`` loads nothing else, to be as quick as Python itself.

    Without ``argv`` it is that of the process, which ends with it.
    """
    import sys

    words = sys.argv[1:] if argv is None else list(argv)
    if words in (["--version"], ["-V"]):
        from agent._version import __version__

        print(f"toolcrib {__version__}")
        return 0
    import gc

    if argv is None:
        from agent.cli.hidden import hide

        hide(words)
        gc.set_threshold(*_OBJECTS)
    try:
        from agent.cli.app import run

        return run(words)
    except KeyboardInterrupt:  # while the modules are still being loaded; later ones are told of in order
        print("toolcrib: interrupted", file=sys.stderr)
        return 130
    finally:
        if argv is None:
            gc.freeze()  # or Python, as it ends, searches all that was imported for cycles: a quarter of a short command's time
