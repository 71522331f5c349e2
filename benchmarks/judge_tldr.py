"""python -m benchmarks.judge_tldr [--sample N --seed S | --precision]

Runs the judge over the command examples of the tldr pages: how many it asks about, with rules and pages, and how many
it could not parse. ``--sample`` prints random flagged lines for a person to label, ``--precision`` compares the labels of such a
sample (tldr_labels.json beside this file) with the judge. The lines are judged, never run.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.core import CannotMeasureError
from benchmarks.judge import CWD, HOME, corpus

if TYPE_CHECKING:
    from tools.judge.findings import Finding

LABELS = Path(__file__).with_name("tldr_labels.json")
BAR = 95.0
"""Percent of the clearly labelled flagged lines that a reasonable operator wants to be asked about."""

_UNPARSED = frozenset({"opaque.syntax", "opaque.depth", "opaque.size"})


class Line(NamedTuple):
    """A line of the corpus. ``number`` counts from 1."""

    number: int
    page: str
    command: str
    findings: Sequence[Finding]

    @property
    def keys(self) -> list[str]:
        """The findings' keys without their subjects (``service.stop``, not ``service.stop@nginx``)."""
        return sorted({finding.key.partition("@")[0] for finding in self.findings})


def main(argv: Sequence[str] | None = None) -> int:
    """Print the requested report. Return 1 if precision is below its bar or bash accepts a line that the parser refuses, 2 if the
    corpus or the labels are missing.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge_tldr", description="Measure the judge on the tldr pages.")
    parser.add_argument("--sample", type=int, metavar="N", help="print N random flagged lines for labelling")
    parser.add_argument("--seed", type=int, default=5, metavar="S", help="which draw (default 5)")
    parser.add_argument("--precision", action="store_true", help=f"of the labels in {LABELS.name}")
    options = parser.parse_args(argv)
    try:
        judged = list(_judged())
        if options.precision:
            return _precision(judged)
    except (CannotMeasureError, OSError, ValueError) as error:
        print(f"benchmarks.judge_tldr: {error}", file=sys.stderr)
        return 2
    if options.sample is not None:
        _sample(judged, options.sample, options.seed)
        return 0
    return _report(judged)


def _judged() -> Iterator[Line]:
    from tools.approval.explain import Judge
    from tools.judge.setting import Setting

    judge = Judge(Setting(home=HOME))
    for number, text in enumerate(corpus("tldr.tsv").read_text("utf-8").splitlines(), start=1):
        page, _, command = text.partition("\t")
        found = judge.examine(command, CWD, files=False).findings
        yield Line(number, page, command, [finding for finding in found if finding.level != "allow"])


def _report(judged: Sequence[Line]) -> int:
    flagged = [line for line in judged if line.findings]
    print(f"flagged: {len(flagged):,} of {len(judged):,} lines ({100 * len(flagged) / len(judged):.2f} %)\n")
    for key, pages in _by_key(flagged):
        shown = ", ".join(f"{page} {times}" if times > 1 else page for page, times in sorted(pages.items()))
        print(f"{key}: {sum(pages.values())}: {shown}")
    unparsed = [line for line in judged if not _parses(line.command)]
    read = [line for line in unparsed if _bash_reads(line.command)]
    print(f"\nnot parsed: {len(unparsed)} lines; bash -n reads {len(read)} of them")
    for line in read:
        print(f"  {line.number} {line.page}: {', '.join(line.keys)}")
    within = [line for line in flagged if not _UNPARSED.isdisjoint(line.keys) and line not in unparsed]
    print(f"parsed, except a text in them that a shell would read: {len(within)}")
    for line in within:
        print(f"  {line.number} {line.page}: {', '.join(finding.why for finding in line.findings)}")
    return 1 if read else 0


def _parses(command: str) -> bool:
    from tools.judge.shell import ShellSyntaxError, ShellTooComplex, parse

    try:
        parse(command)
    except (ShellSyntaxError, ShellTooComplex):
        return False
    return True


def _by_key(flagged: Sequence[Line]) -> list[tuple[str, Counter[str]]]:
    pages: dict[str, Counter[str]] = defaultdict(Counter)
    for line in flagged:
        for key in line.keys:
            pages[key][line.page.rpartition("/")[2]] += 1
    return sorted(pages.items(), key=lambda one: (-sum(one[1].values()), one[0]))


def _bash_reads(command: str) -> bool:
    """Return whether bash parses the command: from a file, with -n, which executes nothing."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".sh") as script:
        script.write(command + "\n")
        script.flush()
        checked = subprocess.run(["bash", "--norc", "-n", script.name], capture_output=True, check=False, timeout=60)
    return checked.returncode == 0


def _sample(judged: Sequence[Line], size: int, seed: int) -> None:
    flagged = [line for line in judged if line.findings]
    for line in sorted(random.Random(seed).sample(flagged, min(size, len(flagged)))):
        print(f"{line.number}\t{line.page}\t{line.command}\t{', '.join(line.keys)}")


def _precision(judged: Sequence[Line]) -> int:
    kept: Mapping[str, Mapping[str, str]] = json.loads(LABELS.read_text("utf-8"))
    flagged = {str(line.number): line for line in judged if line.findings}
    labels = {number: label for number, label in kept["labels"].items() if number in flagged}
    counted = Counter(labels.values())
    dangerous, benign, grey = (counted[label] for label in ("dangerous", "benign", "grey"))
    if unknown := set(counted) - {"dangerous", "benign", "grey"}:
        raise ValueError(f"{LABELS.name}: unknown label {min(unknown)!r}: use dangerous, benign or grey")
    if not dangerous + benign:
        raise ValueError(f"{LABELS.name}: no label belongs to a flagged line: label a new draw (--sample)")
    precision = 100 * dangerous / (dangerous + benign)
    dropped = len(kept["labels"]) - len(labels)
    print(f"precision: {precision:.1f} % ({dangerous} dangerous, {benign} benign; {grey} grey apart)", end="")
    print(f"; {len(kept['labels'])} lines labelled, {dropped} of them no longer flagged")
    for number, label in labels.items():
        if label == "benign":
            print(f"  {number} {flagged[number].page}: {', '.join(flagged[number].keys)}")
    return 0 if precision >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
