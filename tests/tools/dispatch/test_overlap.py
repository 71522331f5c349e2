"""Calls that must keep their order."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import DeletesFile, ReadsFile, RunsCommand, WritesFile
from tools.dispatch.overlap import Reach, overlap

RUNS, READS = RunsCommand("rm -rf out", "/p"), ReadsFile("/p/a")
NOTHING, OPAQUE, UNKNOWN = Reach((), acts=False), Reach((), acts=True), Reach(None, acts=False)


def does(*effects: Any) -> Reach:
    return Reach(effects, acts=True)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (does(RUNS), does(READS), True),
        (does(RUNS), does(WritesFile("/elsewhere/x")), True),
        (does(RUNS), does(RUNS), True),
        (does(RUNS), NOTHING, False),
        (OPAQUE, does(READS), True),
        (OPAQUE, NOTHING, False),
        (UNKNOWN, does(READS), True),
        (UNKNOWN, OPAQUE, True),
        (does(READS), does(READS), False),
        (does(WritesFile("/p/a")), does(READS), True),
        (does(WritesFile("/p")), does(READS), True),
        (does(WritesFile("/p/a/b")), does(READS), True),
        (does(WritesFile("/p/ab")), does(READS), False),
        (does(DeletesFile("/p/a")), does(WritesFile("/p/a")), True),
        (does(DeletesFile("/p/a")), does(WritesFile("/p/b")), False),
        (does(WritesFile("/")), does(READS), True),
        (does(READS, WritesFile("/q")), does(ReadsFile("/q/x")), True),
        (does("a plugin's own"), does(READS), True),
    ],
)
def test_overlap(one: Reach, other: Reach, expected: bool) -> None:
    assert overlap(one, other) is overlap(other, one) is expected
