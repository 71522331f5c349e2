"""Run mutants: each in a copy, until the first test fails."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants.copies import TimeLimits, clear_away, fork_pytest
from mutants.making import Mutant
from mutants.recording import Recording


@dataclass
class Bench:
    """A copy of the project that runs one mutant at a time."""

    folder: Path
    mutant: Mutant | None = None
    child: int = 0

    def begin(self, mutant: Mutant, tests: Sequence[str], seconds: Mapping[str, float]) -> None:
        file = self.folder / "copy" / mutant.path
        shutil.copy2(file, self.folder / "original")
        file.write_text(mutant.code, encoding="utf-8")
        self.mutant = mutant
        self.child = fork_pytest(self.folder, self.folder / "copy", ["-x", "-q", *tests], TimeLimits(seconds))

    def ended(self) -> str | None:
        """Return how the run ended, or None while it runs."""
        pid, status = os.waitpid(self.child, os.WNOHANG)
        if not pid:
            return None
        self.clean_up()
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
            return "timed out"
        return "killed" if status else "survived"

    def clean_up(self) -> None:
        """Restore the file with its old time, so that its bytecode is valid again."""
        clear_away(self.folder)
        if self.mutant is not None:
            shutil.copy2(self.folder / "original", self.folder / "copy" / self.mutant.path)
        shutil.rmtree(self.folder / "tmp", ignore_errors=True)
        self.mutant = None

    def killer(self) -> str:
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", (self.folder / "out.txt").read_text(errors="replace"), re.MULTILINE)
        return failed[1] if failed else ""


def judge(mutants: Sequence[Mutant], recording: Recording, benches: Sequence[Bench]) -> Iterator[tuple[Mutant, str, str]]:
    """Yield each mutant with its outcome and the test that failed."""
    waiting = list(reversed(mutants))
    while waiting or any(bench.mutant for bench in benches):
        for bench in benches:
            if (mutant := bench.mutant) and (how := bench.ended()):
                yield mutant, how, bench.killer() if how == "killed" else ""
            if bench.mutant is None and waiting:
                tests = recording.tests_of(waiting[-1])
                if tests:
                    bench.begin(waiting.pop(), tests, recording.seconds)
                else:
                    yield waiting.pop(), "untested", ""
        time.sleep(0.05)
