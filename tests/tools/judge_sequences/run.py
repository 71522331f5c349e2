"""Run the sequences and print the totals of each class: ``python run.py [--kind KIND] [--mode MODE] [--only PART] [--write]``.

``--write`` writes the known file of the mode, which names the rows that do not hold today, and records in `proven.txt` the
hostile rows whose harm was seen: `--kind proof --write` proves all of them, with ``--only PART`` some. `--kind plain` runs the
ordinary rows without a judge, `--kind attacks` the hostile ones of TOOLCRIB_CORPORA.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rows import PROVEN, digest, known, known_file, proven, rows  # type: ignore[import-not-found]  # beside this file
from sandbox import MODES, Sandbox, lacking, open_sandbox, refused  # type: ignore[import-not-found]  # beside this file

HEADER = """\
# Sequences that do not hold today, by name; BACKEND:NAME in a container or on another host. `run.py --write` writes this file but
# for those; remove a row here once it holds.
"""
PROVEN_HEADER = """\
# Hostile sequences whose harm was seen where no judge is, each after the digest of its row. `run.py --kind proof --write` writes
# this file; the tests prove what is not in it, or is another row by now, and a share of the rest.
"""
Result = tuple[str, str, str]
"""A row's name, its result (held, undone, got through, free, needless, failed, proven, unproven, not proven), and the reason."""


def judge(sandbox: Sandbox, kind: str, name: str, row: dict[str, Any]) -> Result:
    """Run one row and return its result."""
    if kind == "proof" and (why := row.get("unproven") or lacking(row)):
        return name, "unproven", str(why)
    try:
        if kind in ("hostile", "attacks"):
            outcome, failure = sandbox.run_hostile(row)
        else:
            outcome = sandbox.run(row, judged=kind == "ordinary")
    except AssertionError as error:
        return name, "error", str(error)
    why = "; ".join([*outcome["asked"], *outcome["refused"]])
    if kind in ("hostile", "attacks"):
        return name, "got through" if failure else "undone" if outcome.get("undone") else "held", why
    if kind == "proof":
        return name, "proven" if outcome["harmed"] else "not proven", "\n".join(outcome["output"])[-400:]
    if kind == "ordinary" and why:
        return name, "needless", why
    if outcome["failed"] and not lacking(row):
        return name, "failed", outcome["failed"] + "\n".join(outcome["output"])[-1500:]
    return name, "free", ""


def all_of(kind: str, part: str, jobs: int, mode: str) -> list[Result]:
    """Run every row of a kind whose name contains ``part``, in ``jobs`` sandboxes."""
    chosen = [
        (name, row) for name, row in rows({"plain": "ordinary", "proof": "hostile"}.get(kind, kind)).items() if part in name
    ]
    with tempfile.TemporaryDirectory(prefix="sequences-") as base:

        def some(job: int) -> list[Result]:
            with open_sandbox(Path(base) / str(job), mode) as sandbox:
                return [judge(sandbox, kind, name, row) for name, row in chosen[job::jobs]]

        with ThreadPoolExecutor(jobs) as pool:
            return sorted(result for results in pool.map(some, range(jobs)) for result in results)


def write_proven(results: list[Result]) -> None:
    """Record the rows that are proven now, and keep the records of rows that did not run."""
    ran = {name for name, _, _ in results}
    kept = {name: noted for name, noted in proven().items() if name in rows("hostile").keys() - ran}
    kept |= {name: digest(name) for name, what, _ in results if what == "proven"}
    PROVEN.write_text(PROVEN_HEADER + "".join(f"{noted} {name}\n" for name, noted in sorted(kept.items())), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", action="append", choices=["hostile", "attacks", "ordinary", "proof", "plain"])
    parser.add_argument("--mode", default="judge", choices=list(MODES))
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="every row with its reason")
    args = parser.parse_args()
    if why := refused(args.mode):
        parser.error(f"the configuration refuses the settings of the mode {args.mode}: {why}")
    results = {kind: all_of(kind, args.only, args.jobs, args.mode) for kind in args.kind or ["hostile", "ordinary", "proof"]}
    for kind, found in results.items():
        for name, what, why in found:
            if args.verbose or what in ("got through", "needless", "failed", "not proven", "error"):
                print(f"{kind:9} {what:12} {name}  {why}")
    for kind, found in results.items():
        print(f"\n{kind}")
        for group in [*sorted({name.partition("/")[0] for name, _, _ in found}), ""]:
            counted = Counter(what for name, what, _ in found if not group or name.startswith(f"{group}/"))
            print(f"  {group or 'all':22}", ", ".join(f"{number} {what}" for what, number in sorted(counted.items())))
    if args.write and "proof" in results:
        write_proven(results["proof"])
    if args.write and not args.only:
        ran = [result for kind in ("hostile", "ordinary") for result in results.get(kind, ())]
        failing = {name for name, what, _ in ran if what in ("got through", "needless", "failed", "error")}
        kept = known(args.mode) - {name for name, _, _ in ran}
        known_file(args.mode).write_text(HEADER + "".join(f"{name}\n" for name in sorted(failing | kept)), "utf-8")


if __name__ == "__main__":
    main()
