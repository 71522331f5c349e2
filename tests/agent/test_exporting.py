"""A session as a document."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.exporting import Format, export, form_of, write
from toolcrib import ToolcribError
from toolcrib.contract.store import SessionInfo

INFO = SessionInfo("421b2b3fd91f", "Is *it* <b>done</b>?", "cli", "", "qwen3", "/home/me/p", 1_795_395_624.0, 1_795_395_700.0, 4)
CALL = {"id": "a", "name": "terminal", "args": {"command": "make test"}}
RECORDS: list[dict[str, Any]] = [
    {"role": "user", "text": "Is it <script>alert(1)</script> done?"},
    {"role": "assistant", "text": "I look.", "calls": [CALL, {"id": "b", "name": "read_file", "args": {"path": "a.md"}}]},
    {
        "role": "results",
        "results": [
            {"call_id": "a", "name": "terminal", "text": json.dumps({"output": "3 failed\n", "exit_code": 1}), "is_error": True},
            {"call_id": "b", "name": "read_file", "text": json.dumps({"content": "```\nx\n```"}), "is_error": False},
        ],
    },
    {"role": "assistant", "text": "", "calls": [{"id": "d", "name": "terminal", "args": {"command": "rm -r x"}}]},
    {"role": "results", "results": [{"call_id": "d", "name": "terminal", "text": "{}", "is_error": True, "denied": True}]},
    {"role": "assistant", "text": "**No.** [more](javascript:alert(1))", "calls": [{"id": "c", "name": "todo", "args": {}}]},
]


def test_markdown_has_what_was_said_and_done() -> None:
    text = export(INFO, RECORDS, "markdown")
    assert text.startswith("# Is \\*it\\* \\<b\\>done\\</b\\>?\n")
    assert "qwen3" in text
    assert "## You\n\nIs it <script>alert(1)</script> done?\n" in text
    assert "**terminal** (failed)\n\n```\nmake test\n```\n\n```\n3 failed\n(exit code 1)\n```\n" in text
    assert "**terminal** (denied)\n\n```\nrm -r x\n```" in text
    assert "**todo**\n\n```\n{}\n```\n\n```\n(no result was recorded)\n```\n" in text


def test_what_a_delegate_said_is_not_the_persons() -> None:
    records = [
        {"role": "user", "text": text, "source": source} for text, source in (("Seven.", "delegate"), ("Go on.", "toolcrib"))
    ]
    assert export(INFO, records, "markdown").endswith("## A delegate\n\nSeven.\n\n## toolcrib\n\nGo on.\n")
    page = export(INFO, records, "html")
    assert '<div class="model"><p class="who">A delegate</p>' in page
    assert 'class="user"' not in page


@given(st.text(alphabet="`ab\n ", max_size=40))
def test_no_result_ends_its_fence(said: str) -> None:
    records = [
        {"role": "assistant", "text": "", "calls": [CALL]},
        {"role": "results", "results": [{"call_id": "a", "name": "terminal", "text": said, "is_error": False}]},
    ]
    from markdown_it import MarkdownIt

    fences = [token for token in MarkdownIt("commonmark").parse(export(INFO, records, "markdown")) if token.type == "fence"]
    assert len(fences) == 2


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_html_runs_nothing_that_was_said() -> None:
    text = export(INFO, RECORDS, "html")
    tags = _Tags()
    tags.feed(text)
    assert "script" not in {tag for tag, _ in tags.found}
    values = [(name, str(value)) for _, attrs in tags.found for name, value in attrs.items()]
    assert not [name for name, value in values if name.startswith("on") or "javascript" in value]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<strong>No.</strong>" in text
    assert "<details class=failed><summary>terminal (failed) <code>make test</code></summary>" in text
    assert "<summary>terminal (denied) <code>rm -r x" in text
    assert "<summary>read_file <code>a.md</code></summary>" in text
    assert "<pre>make test</pre><pre>3 failed\n(exit code 1)</pre></details>" in text
    assert not re.search(r"https?://", text)


def test_html_is_one_file_that_loads_nothing_and_knows_the_dark() -> None:
    text = export(replace(INFO, tags=("<b>web</b>",)), RECORDS, "html")
    tags = _Tags()
    tags.feed(text)
    assert not [attrs for _, attrs in tags.found if {"src", "background", "action", "srcset", "style"} & attrs.keys()]
    assert not {"link", "iframe", "object", "embed", "img", "form", "base"} & {tag for tag, _ in tags.found}
    assert "default-src 'none'; style-src 'unsafe-inline'" in text
    assert "prefers-color-scheme:dark" in text
    assert '<span class="tag">&lt;b&gt;web&lt;/b&gt;</span>' in text


def test_json_is_the_whole_record() -> None:
    whole = json.loads(export(INFO, RECORDS, "json"))
    assert (whole["v"], whole["session"]["id"], whole["records"]) == (1, INFO.id, RECORDS)


@pytest.mark.parametrize(("name", "form"), [("a.md", "markdown"), ("a.HTML", "html"), ("a.json", "json")])
def test_the_ending_says_the_form(name: str, form: Format) -> None:
    assert form_of(Path(name)) == form
    with pytest.raises(ToolcribError, match=r"the name must end with \.md"):
        form_of(Path("a.txt"))


def test_a_document_is_its_owners_and_replaces_none_unasked(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    write(path, "one")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ToolcribError, match="already exists"):
        write(path, "two")
    path.chmod(0o644)
    write(path, "2", force=True)
    assert path.read_text() == "2"
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ToolcribError, match="can't be written: No such file"):
        write(tmp_path / "gone" / "a.md", "x")
