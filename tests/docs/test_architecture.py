"""The picture of the architecture is what its script draws, and it names folders that exist."""

from __future__ import annotations

from tests.docs.architecture import FILE, STEPS, draw, folders
from tests.docs.snippets import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


def test_the_picture_is_what_the_script_draws() -> None:
    """After a change of the script run ``python -m tests.docs.architecture``."""
    assert FILE.read_text("utf-8") == draw()


def test_the_folders_of_the_picture_exist() -> None:
    assert [name for name in folders() if not (ROOT / name / "__init__.py").is_file()] == []


def test_the_page_explains_each_step_and_names_each_folder() -> None:
    assert "_static/architecture.svg" in PAGE
    assert [step.title for step in STEPS if f"**{step.title}**" not in PAGE] == []
    assert [name for name in folders() if f"`{name}/`" not in PAGE] == []
    assert len(PAGE.splitlines()) <= 120
