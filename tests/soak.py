"""Run the long series, one after another, and print a table.

    python -m tests.soak [NAME...] [--list]

The exit code is 1 if one of them fails. Each writes its output to NAME.txt in the folder that is printed at the end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.series import SERIES, Series

ROOT = Path(__file__).parents[1]
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "runs": ("tests/fuzz/run_kills.py", "--kills", "200"),
    "conversations": ("-m", "tests.fuzz.kill_conversations", "--kills", "500"),
    "gateway": ("-m", "tests.fuzz.kill_gateway", "--kills", "200"),
    "processes": ("-m", "tests.fuzz.kill_background", "--kills", "100"),
    "week": ("-m", "tests.fuzz.week"),
    "llama": ("-m", "tests.fuzz.llama_runs"),
    "undo": ("-m", "tests.fuzz.undo_scripts", "--count", "500"),
    "undo-kills": ("-m", "tests.fuzz.undo_scripts", "--kills", "200"),
    "screen": ("-m", "tests.fuzz.screen_streams", "--count", "100000", "--seed", "1"),
    "properties": ("-m", "pytest", "-q", "-n", "4", "-m", "hypothesis", "--hypothesis-profile", "soak"),
    "shell-parser": ("-m", "tests.fuzz.shell_parser", "--minutes", "20", "--seed", "1"),
    "shell-meaning": ("tests/fuzz/shell_meaning.py", "--minutes", "20", "--seed", "1"),
}
"""Programs that try random cases, with their arguments."""


def files_of(series: Series) -> list[str]:
    """Return the files and folders of a series, relative to the root."""
    return [str(one.relative_to(ROOT)) for path in series.paths for one in sorted(ROOT.glob(f"{path.rstrip('/')}*"))]


def commands() -> dict[str, list[str]]:
    """Return the command of each series, by its name."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", "4", "--dist", "loadgroup"]
    found = {one.name: [*pytest, *files_of(one)] for one in SERIES}
    return found | {name: [sys.executable, *argv] for name, argv in PROGRAMS.items()}


def main() -> int:
    """Run the named series, or all; return 1 if one failed."""
    known = commands()
    parser = argparse.ArgumentParser(prog="scripts/soak", description="Run the long series of tests, and print a table.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; all if none is named")
    parser.add_argument("--list", action="store_true", help="print the names and commands, and run nothing")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"no series {unknown[0]!r}: choose from {', '.join(known)}")
    chosen = {name: argv for name, argv in known.items() if not options.names or name in options.names}
    if options.list:
        for name, argv in chosen.items():
            print(f"{name:14} {' '.join(['python', *argv[1:]])}")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    failed = False
    print(f"{'series':14} {'result':7} {'minutes':>7}  last line of the output", flush=True)
    for name, argv in chosen.items():
        started = time.monotonic()
        with (folder / f"{name}.txt").open("w+", encoding="utf-8", errors="replace") as output:
            code = subprocess.run(argv, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
            output.seek(0)
            last = next((line.strip() for line in reversed(output.readlines()) if line.strip()), "")
        failed |= code != 0
        print(f"{name:14} {'failed' if code else 'ok':7} {(time.monotonic() - started) / 60:7.1f}  {last[:90]}", flush=True)
    print(f"The outputs are in {folder}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
