"""Compare the shell parser with ``bash -n`` and shfmt on generated scripts, for as long as wanted.

    python -m tests.fuzz.shell_parser --minutes 60 --seed 1 [--keep FOLDER]

Nothing that is generated is executed. Prints counts, and each disagreement; the exit status is 1 if there was one.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fuzz import shell_oracles, shell_scripts, shell_trees
from tools.judge.shell import parse

BATCH = 100


def compare_trees(program: str, text: str) -> str:
    """Return ``same``, ``differs``, or why the trees can't be compared."""
    try:
        theirs = shell_trees.shfmt_form(program, text)
        ours = shell_trees.our_form(parse(text))
    except shell_trees.IncomparableError as error:
        return "incomparable: " + str(error).split(": ", 1)[-1].strip()[:50]
    return "same" if ours == theirs else "differs"


def run(minutes: float, seed: int, keep: Path | None) -> int:
    counts: Counter[str] = Counter()
    program = shell_trees.shfmt_path()
    end = time.monotonic() + minutes * 60
    with tempfile.TemporaryDirectory() as name:
        number = seed * 1_000_000_000
        while time.monotonic() < end:
            for make in (shell_scripts.script, shell_scripts.damaged, shell_scripts.soup):
                texts = [make(each) for each in range(number, number + BATCH)]
                for verdict in shell_oracles.verdicts(texts, Path(name)):
                    count_verdict(counts, make.__name__, verdict, keep)
                    # Damaged scripts would find oddities of shfmt rather than ours.
                    if program and not verdict.ours and make is shell_scripts.script:
                        outcome = compare_trees(program, verdict.text)
                        counts[f"shfmt {outcome}"] += 1
                        if outcome == "differs" and verdict.bash:
                            report(f"shfmt's tree differs from ours: {verdict.text!r}", verdict.text, keep)
            number += BATCH
    for key, count in sorted(counts.items()):
        print(f"{count:9,} {key}")
    return 1 if any(key.endswith("WRONG") or key == "shfmt differs" for key in counts) else 0


def count_verdict(counts: Counter[str], kind: str, verdict: shell_oracles.Verdict, keep: Path | None) -> None:
    counts[f"{kind} cases"] += 1
    counts[f"{kind} accepted by bash"] += verdict.bash
    counts[f"{kind} accepted by us"] += not verdict.ours
    if verdict.wrong:
        counts[f"{kind} WRONG"] += 1
        report(f"bash accepts: {verdict.bash}, ours: {verdict.ours or 'accepts'}: {verdict.text!r}", verdict.text, keep)
    elif verdict.bash and verdict.ours:
        counts[f"{kind} stricter, explained"] += 1


def report(line: str, text: str, keep: Path | None) -> None:
    print(line, flush=True)
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{abs(hash(text)):x}.sh").write_text(text)


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--minutes", type=float, default=3)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--keep", type=Path, help="a folder for the scripts that were read differently")
    chosen = options.parse_args()
    return run(chosen.minutes, chosen.seed, chosen.keep)


if __name__ == "__main__":
    raise SystemExit(main())
