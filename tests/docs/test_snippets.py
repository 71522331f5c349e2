"""Each page's code runs as written, or the page says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.snippets import ROOT, Reader, blocks, fault_of
from tests.forks import Forks

PAGES = sorted(
    path.relative_to(ROOT).as_posix() for part in ("README.md", "docs/**/*.md", "plugins/*/README.md") for path in ROOT.glob(part)
)
AS_A_USER = {"README.md", "docs/getting-started.md", "docs/tutorials/first-tool.md"}
"""Pages for newcomers, whose commands are typed to a shell and start a new program each."""


@pytest.mark.parametrize("page", PAGES)
def test_no_code_of_a_page_is_without_its_test(page: str) -> None:
    found = [(block.line, fault) for block in blocks((ROOT / page).read_text("utf-8")) if (fault := fault_of(block))]
    assert found == []


@pytest.mark.full
@pytest.mark.untraced
@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_says_happens(page: str, tmp_path: Path, forks: Forks) -> None:
    found = blocks((ROOT / page).read_text("utf-8"))
    if not found:
        pytest.skip("it has no code")
    with Reader(tmp_path, page, None if page in AS_A_USER else forks) as reader:
        for block in found:
            reader.do(block)
