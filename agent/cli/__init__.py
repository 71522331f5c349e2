"""The command ``toolcrib``.

``app`` turns a command line into an exit code. ``commands`` has a module for each subcommand; ``options`` and ``offer`` have
what several of them share; ``hidden`` keeps other processes from reading this one. The chat is in ``conversation``;
``commands.chat`` gives it the commands of ``slash`` (with ``words``, ``session_commands``, ``switching``). The chat uses
``attaching`` and ``own_command`` (with ``beside``), ``complete`` (with ``filenames``) and ``terminal``. If the terminal can
redraw rows, the chat also uses ``interactive``, ``liveview`` and ``calls``, built on the rows of ``screen``. ``oneshot``,
``piped`` and ``jsonl`` run one task. ``view``, ``render``, ``escape``, ``trace``, ``faults``, ``logs``, ``images`` and
``explained`` format all other output. ``ask`` shows approval requests at the terminal; ``answering`` and ``parked`` handle
parked ones. Each other module serves one command.
"""

from __future__ import annotations

import contextlib

_OBJECTS = (100_000, 2, 2)
"""Thresholds of the garbage collector. Startup creates nearly that many objects and keeps them all: with Python's own thresholds
(700, 10, 10) the collector would search them for cycles a hundred times.
"""


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit code. ``--version`` loads nothing else, so that it starts as fast as Python
    itself.

    Without ``argv`` it runs the command line of the process, and assumes that the process ends afterwards.
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
    except KeyboardInterrupt:  # while the modules are still loading; ``app.run`` reports later interrupts
        print("toolcrib: interrupted", file=sys.stderr)
        return 130
    except Exception as error:  # noqa: BLE001 - the outermost guard: a user reads one line, and --verbose shows the traceback
        return _failed(error, words)
    finally:
        if argv is None:
            gc.freeze()  # else Python searches all imported objects for cycles at exit: a quarter of a short command's time


def _failed(error: Exception, words: list[str]) -> int:
    """Report an exception that no command expected, and return the exit code. This imports no module of toolcrib, because loading
    one may be what failed.
    """
    import os
    import sys

    with contextlib.suppress(Exception):  # standard error may be closed too
        if {"-v", "--verbose"}.intersection(words) or os.environ.get("TOOLCRIB_LOG", "").lower() == "debug":
            sys.excepthook(type(error), error, error.__traceback__)
        else:
            text = "".join(char if char.isprintable() else " " for char in f"{type(error).__name__}: {error}")
            print(f"toolcrib: failed: {text}\n--verbose shows the traceback", file=sys.stderr)
    return 1
