"""Each page of docs/ answers one question, so it is short."""

from __future__ import annotations

from tests.docs.snippets import ROOT

MOST_LINES = 250
CHANGELOG = "changelog.md"
"""The page that may be longer, because it lists changes and explains nothing."""


def test_no_page_has_more_than_250_lines() -> None:
    folder = ROOT / "docs"
    lines = {path.relative_to(folder).as_posix(): len(path.read_text("utf-8").splitlines()) for path in folder.rglob("*.md")}
    lines.pop(CHANGELOG, None)
    assert {page: count for page, count in lines.items() if count > MOST_LINES} == {}
