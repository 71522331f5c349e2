"""``python -m toolcrib``: the command ``toolcrib``."""

import sys
from pathlib import Path

if __name__ == "__main__":
    if not sys.flags.safe_path and sys.path[0] != str(Path(__file__).parents[1]):
        del sys.path[0]  # the current folder: a project's own ``agent`` or ``tools`` must not replace toolcrib's modules
    from agent.cli import main

    sys.exit(main())
