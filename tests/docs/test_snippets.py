"""Each page's code runs as written, or the page says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.snippets import ROOT, Reader, blocks, fault_of

PAGES = sorted(
    path.relative_to(ROOT).as_posix() for part in ("README.md", "docs/**/*.md", "plugins/*/README.md") for path in ROOT.glob(part)
)


@pytest.mark.parametrize("page", PAGES)
def test_no_code_of_a_page_is_without_its_test(page: str) -> None:
    found = [(block.line, fault) for block in blocks((ROOT / page).read_text("utf-8")) if (fault := fault_of(block))]
    assert found == []


@pytest.mark.full
@pytest.mark.untraced
@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_says_happens(page: str, tmp_path: Path) -> None:
    found = blocks((ROOT / page).read_text("utf-8"))
    if not found:
        pytest.skip("it has no code")
    with Reader(tmp_path, page) as reader:
        for block in found:
            reader.do(block)
