"""Mutation testing: change the code a little, run the tests that execute the changed line, and report the undetected changes.

cosmic-ray makes the mutants. This package draws a sample of them by a seed, selects the tests and runs them:

    record   run the tests once, with the lines that each executes
    draw     choose positions in the code at random, and one mutant at each
    judge    write each mutant into a copy of the project, and run the tests of its line there until one fails

A mutant that no test kills survives. ``scripts/mutants/survivors.txt`` lists survivors that are no gap in the tests, each with
its reason. All others are reported, and the exit code is 1. The checkout is never changed: all work is done in copies.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mutants.copies import clear_away, copy_project
from mutants.judging import Bench, judge
from mutants.listing import read_survivors, write_entry
from mutants.making import Key, Mutant, draw, find
from mutants.recording import Recording, record

SURVIVORS = Path("scripts/mutants/survivors.txt")


def _table(ended: Sequence[tuple[Mutant, str]]) -> str:
    """Return a row for each folder, and one for all."""
    columns = ("killed", "timed out", "excused", "survived", "untested")
    rows: dict[str, Counter[str]] = {}
    for mutant, how in ended:
        rows.setdefault(str(Path(mutant.path).parent), Counter())[how] += 1
    if len(rows) > 1:
        rows["all"] = sum(rows.values(), Counter[str]())
    lines = [f"{'':30}{'mutants':>9}" + "".join(f"{name:>14}" for name in columns) + f"{'caught':>9}"]
    for name, row in rows.items():
        caught = (row["killed"] + row["timed out"]) / row.total()
        lines.append(f"{name:30}{row.total():>9}" + "".join(f"{row[column]:>14}" for column in columns) + f"{caught:>9.1%}")
    return "\n".join(lines)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("scripts/mutate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a file or folder of the source")
    parser.add_argument("--sample", type=int, default=100, metavar="N", help="number of mutants to try (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the draw (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="mutants to try at a time (default: %(default)s)")
    parser.add_argument("--tests", nargs="+", default=["tests"], metavar="PATH", help="run only these tests (default: tests)")
    parser.add_argument(
        "--recording", type=Path, metavar="FILE", help="file with the lines that tests execute; written if missing"
    )
    parser.add_argument("--again", type=Path, metavar="FILE", help="try the mutants of this list, e.g. a report, and draw none")
    parser.add_argument("--list", action="store_true", help="print the mutants and try none")
    parser.add_argument("--report", type=Path, metavar="FILE", help="file to write survivors to, in the form of the list")
    chosen = parser.parse_args(arguments)
    if not chosen.paths and not chosen.again:
        parser.error("name a PATH to mutate, or a list with --again")
    for path in chosen.paths:
        if not Path(path).exists():
            parser.error(f"{path} does not exist; name files and folders from the project's folder on")
    return chosen


def _chosen(options: argparse.Namespace) -> list[Mutant]:
    if options.again is None:
        return draw(options.paths, options.sample, options.seed)
    text = re.sub(r"^why:[ \t]*$", "why: unknown", options.again.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return find(set(read_survivors(text)))


def _recorded(options: argparse.Namespace, copy: Path, folder: Path) -> Recording:
    if options.recording and options.recording.exists():
        return Recording(**json.loads(options.recording.read_text(encoding="utf-8")))
    print(f"Recording what the tests in {' '.join(options.tests)} execute ...", flush=True)
    recording = record(copy, folder, options.tests, options.jobs)
    if options.recording:
        options.recording.write_text(json.dumps(vars(recording)), encoding="utf-8")
    return recording


def _try_all(
    options: argparse.Namespace, mutants: Sequence[Mutant], listed: dict[Key, str], folder: Path
) -> list[tuple[Mutant, str]]:
    benches = [Bench(folder / str(number)) for number in range(options.jobs)]
    copy_project(benches[0].folder / "copy")
    recording = _recorded(options, benches[0].folder / "copy", folder)
    for bench in benches[1:]:
        shutil.copytree(benches[0].folder / "copy", bench.folder / "copy", symlinks=True)
    ended = []
    for number, (mutant, how, test) in enumerate(judge(mutants, recording, benches), 1):
        known = "excused" if how in ("survived", "untested") and mutant.key in listed else how
        ended.append((mutant, known))
        print(f"{number:>4}/{len(mutants)}  {known:13} {mutant.path}:{mutant.line} {mutant.operator}  {test}", flush=True)
    return ended


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    try:
        listed = read_survivors(SURVIVORS.read_text(encoding="utf-8")) if SURVIVORS.exists() else {}
        mutants = _chosen(options)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(write_entry(mutant, mutant.operator) for mutant in mutants))
        return 0
    print(f"{len(mutants)} mutants", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # to end running tests, and delete the copies
    folder = Path(tempfile.mkdtemp(prefix="mutants-")).resolve()
    try:
        ended = _try_all(options, mutants, listed, folder)
    finally:
        clear_away(folder)
        shutil.rmtree(folder, ignore_errors=True)
    survivors = [mutant for mutant, how in ended if how in ("survived", "untested")]
    entries = "\n".join(write_entry(mutant) for mutant in survivors)
    if options.report:
        options.report.write_text(entries, encoding="utf-8")
    print(f"\n{entries}\n{_table(ended)}" if entries else f"\n{_table(ended)}")
    if survivors:
        print(f"\n{len(survivors)} survived: write the test that kills each, or list it with its reason in {SURVIVORS}.")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
