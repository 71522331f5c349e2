"""A document is Markdown that a person may write, and changing a note leaves the rest unchanged."""

from __future__ import annotations

import time

from agent.memory.document import MemoryDocument, MemoryNote, note_of

WRITTEN = """\
# What the agent noted

## Style
* Tabs, not blanks. <!-- 2026-01-31 4f1c0a2b3c4d -->
- Two lines:
  the second one <!-- 2026-02-01 -->

A line of the person's.
- from a person
"""


def test_notes_are_the_items_of_its_lists() -> None:
    document = MemoryDocument.parse(WRITTEN)
    assert document.text() == WRITTEN
    assert document.notes == [
        MemoryNote("Tabs, not blanks.", "2026-01-31", "4f1c0a2b3c4d"),
        MemoryNote("Two lines:\nthe second one", "2026-02-01"),
        MemoryNote("from a person"),
    ]
    assert document.size == sum(
        map(len, ["## Style", "Tabs, not blanks.", "Two lines:\nthe second one", "A line of the person's.", "from a person"])
    )


def test_a_change_touches_its_note_alone() -> None:
    document = MemoryDocument.parse(WRITTEN)
    (tabs,) = document.holding("Tabs")
    assert document.replacing(tabs, MemoryNote("Blanks.", "2026-03-03")).text() == WRITTEN.replace(
        "* Tabs, not blanks. <!-- 2026-01-31 4f1c0a2b3c4d -->", "- Blanks. <!-- 2026-03-03 -->"
    )
    assert document.replacing(tabs, None).text() == WRITTEN.replace("* Tabs, not blanks. <!-- 2026-01-31 4f1c0a2b3c4d -->\n", "")
    more = document.with_note(MemoryNote("more", "2026-03-03", "ab"), "unused")
    assert more.text() == WRITTEN + "- more <!-- 2026-03-03 ab -->\n"


def test_a_new_document_has_a_title_and_a_note_says_where_it_is_from() -> None:
    note = note_of("  one\n\n   two  ", "4f1c")
    text = MemoryDocument.parse("").with_note(note, "Title").text()
    assert text == f"# Title\n\n- one\n  two <!-- {time.strftime('%Y-%m-%d')} 4f1c -->\n"
    assert MemoryDocument.parse(text).notes == [note]


def test_what_looks_like_an_item_or_a_source_within_a_note_stays_in_it() -> None:
    note = note_of("- a\n- b <!-- 2026-01-01 -->\n# c", "4f1c")
    read = MemoryDocument.parse(MemoryDocument.parse("").with_note(note, "T").text())
    assert read.notes == [note]


def test_a_note_that_is_the_text_goes_before_those_that_hold_it() -> None:
    document = MemoryDocument.parse("- tabs\n- tabs in Go\n")
    assert [note.text for note in document.holding("tabs")] == ["tabs"]
    assert [note.text for note in document.holding("tab")] == ["tabs", "tabs in Go"]
