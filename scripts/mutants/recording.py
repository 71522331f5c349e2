"""Record what each test executes, and select the tests for a mutant."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants.copies import Durations, fork_pytest
from mutants.making import Mutant

NEVER_SELECTED = ("tests/house", "tests/scripts", "tests/benchmarks", "tests/e2e", "tests/sdk")
TESTS_AT_MOST, SECONDS_AT_MOST = 500, 40.0


@dataclass
class Recording:
    """Lines and durations. ``lines`` maps file, line and test; ``seconds`` has the duration of each passed test."""

    lines: dict[str, dict[str, list[str]]]
    seconds: dict[str, float]

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Return the tests that execute the statement: first those of the mirrored file, then the quickest, and of these the
        nearest.

        If the statement runs at import, return the tests that execute any line of its file, or else tests that name its class.
        If there are none, return the tests of the mirrored folder, which may run the statement in a child process: child
        processes are not recorded. For the same reason the tests of the mirrored file are always included.
        """
        by_line = self.lines.get(mutant.path, {})
        named = {test for line in mutant.lines for test in by_line.get(str(line), ())}
        if mutant.at_import and not named:
            named = {test for tests in by_line.values() for test in tests} or self._that_name(mutant.scope)
        found = set(named)
        beside = (Path("tests") / mutant.path).parent
        for test in self.seconds:
            if _is_for(mutant.path, test) or (not named and Path(test.partition("::")[0]).is_relative_to(beside)):
                found.add(test)
        chosen, spent = list[str](), 0.0
        for test in sorted((test for test in found if test in self.seconds), key=lambda test: self._rank(mutant.path, test)):
            spent += self.seconds[test]
            if len(chosen) == TESTS_AT_MOST or (chosen and spent > SECONDS_AT_MOST):
                break
            chosen.append(test)
        return chosen

    def _that_name(self, scope: str) -> set[str]:
        """Return the tests whose file contains the name of a class or function of this scope."""
        name = re.compile(rf"\b({'|'.join(map(re.escape, scope.split('.')))})\b")
        files = {test.partition("::")[0] for test in self.seconds}
        found = {file for file in files if Path(file).exists() and name.search(Path(file).read_text(encoding="utf-8"))}
        return {test for test in self.seconds if test.partition("::")[0] in found}

    def _rank(self, path: str, test: str) -> tuple[bool, float, int]:
        common = os.path.commonpath([Path("tests") / path, test.partition("::")[0]])
        return not _is_for(path, test), round(self.seconds[test], 1), -len(common.split("/"))


def _is_for(path: str, test: str) -> bool:
    source, file = Path("tests") / path, Path(test.partition("::")[0])
    return file.parent == source.parent and file.stem.startswith(f"test_{source.stem.strip('_')}")


def record(copy: Path, folder: Path, tests: Sequence[str], jobs: int) -> Recording:
    """Run the quick tests once in this copy, and record what each executes."""
    from coverage import CoverageData

    settings, data, times = folder / "coveragerc", folder / "coverage", folder / "times.json"
    settings.write_text(f"[run]\nsource = .\nomit = tests/*\nrelative_files = true\ndata_file = {data}\n", encoding="utf-8")
    options = [*tests, "-q", "-m", "not full", "-n", str(jobs), "--cov", f"--cov-config={settings}", "--cov-context=test"]
    options += ["--cov-report=", *(f"--ignore={name}" for name in NEVER_SELECTED)]
    os.waitpid(fork_pytest(folder, copy, options, Durations(times), bytecode=True), 0)
    if not times.exists():
        raise SystemExit(f"The tests did not run:\n{(folder / 'out.txt').read_text(encoding='utf-8')[-3000:]}")
    held = CoverageData(str(data))
    held.read()
    lines = {
        os.path.relpath(file, copy) if Path(file).is_absolute() else file: {
            str(line): sorted({context.partition("|")[0] for context in contexts if context})
            for line, contexts in held.contexts_by_lineno(file).items()
        }
        for file in held.measured_files()
    }
    return Recording(lines, json.loads(times.read_text(encoding="utf-8")))
