"""``toolcrib docs``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent.cli import command_pages
from agent.config import settings
from agent.reference import site
from agent.reference.page import Page

_READS = {"html": "dummy", "auto": "1"}
"""Options of Sphinx -> options that make it write nothing."""


@pytest.fixture(scope="module")
def pages() -> list[Page]:
    return list(site.all_pages(command_pages.pages()))


@pytest.fixture(autouse=True)
def _written_once(pages: list[Page], monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the same pages for all tests: making all of them takes longer than showing one."""
    monkeypatch.setattr(site, "all_pages", lambda more: iter(pages))


def test_a_page_is_shown(run: Any) -> None:
    done = run("docs", "gateway")
    assert done.code == 0
    assert "# The gateway" in done.out


def test_a_page_has_no_marks_that_are_for_the_site_or_the_tests(run: Any) -> None:
    shown = run("docs", "plugins").out
    assert "register_tools" in shown
    assert "<!--" not in shown
    assert "`toolcrib chat`.\n\nThe conversation stays" in run("docs", "chat").out, "there are no pictures in a terminal"
    shown = run("docs", "reference/hooks/index").out
    assert "\n- `toolcrib docs reference/hooks/tool_gate`: tool_gate\n" in shown
    assert "toctree" not in shown
    assert "How-to guides:\n\n- `toolcrib docs chat`: The chat\n" in run("docs", "index").out


def test_a_setting_is_shown(run: Any) -> None:
    done = run("docs", "model.base_url")
    assert (done.code, done.err) == (0, "")
    assert "Address of the server" in done.out
    assert "model.api_key_env`" not in done.out


def test_words_are_looked_for(run: Any) -> None:
    done = run("docs", "--search", "approvals", "history")
    assert done.code == 0
    assert len(done.out.splitlines()) > 3
    done = run("docs", "no-such-thing-anywhere")
    assert done.code == 1
    assert "toolcrib docs --list" in done.err


def test_a_question_is_looked_for_by_its_words(run: Any) -> None:
    for words in (["--search", "approvals history"], ["approvals history shows"], ["how to write a plugin"]):
        done = run("docs", *words)
        assert (done.code, done.err) == (0, "")
        assert "toolcrib docs " in done.out


def test_a_class_is_shown_with_its_methods(run: Any) -> None:
    done = run("docs", "ToolCallContext")
    assert (done.code, done.err) == (0, "")
    assert "Report the progress" in done.out


def test_the_pages_are_listed(run: Any) -> None:
    done = run("docs", "--list")
    assert done.code == 0
    assert "reference/settings/model" in done.out
    assert not done.out.startswith("adr/")


def test_what_changed_is_a_page(run: Any) -> None:
    assert "## 0.1.0" in run("docs", "changelog").out
    first = run("docs", "--search", "backup").out.splitlines()[0]
    assert not first.startswith("changelog")


def test_a_mistyped_name_is_answered_by_those_that_are_like_it(run: Any) -> None:
    done = run("docs", "gatewy")
    assert done.code == 1
    assert "did you mean gateway?" in done.err


def test_a_page_of_pages_names_the_commands_that_show_them(run: Any) -> None:
    done = run("docs", "settings")
    assert "- `toolcrib docs reference/settings/model`: model\n" in done.out
    assert "{toctree}" not in done.out
    done = run("docs", "index")
    first = ("- `toolcrib docs getting-started`: Getting started\n", "- `toolcrib docs tutorials/first-tool`: Your first tool\n")
    assert f"Tutorials:\n\n{''.join(first)}" in done.out
    assert "<!--" not in done.out


def test_the_example_of_a_search_finds_more_than_itself(run: Any) -> None:
    assert "security: " in run("docs", "--search", "prompt", "injection").out


def test_without_the_extra_the_first_page_is_shown_here(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line names the package for the browser; only --build needs it."""
    monkeypatch.setattr(site, "find_spec", lambda name: None)
    done = run("docs")
    assert (done.code, done.err.count("\n")) == (0, 1)
    assert "pip install 'toolcrib[docs]'" in done.err
    assert done.out == run("docs", "index").out
    assert "`toolcrib docs getting-started`" in done.out
    built = run("docs", "--build", str(tmp_path / "site"))
    assert built.code == 2
    assert "pip install 'toolcrib[docs]'" in built.err


@pytest.mark.full
@pytest.mark.untraced
def test_the_pages_have_no_fault(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sphinx reads the pages and follows their links, but writes no site, which takes more than half of the time."""
    start = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda words, **how: start([_READS.get(word, word) for word in words], **how))
    done = run("docs", "--build", str(tmp_path / "site"), "--strict")
    assert (done.code, done.err) == (0, "")


@pytest.mark.full
@pytest.mark.untraced
def test_the_site_has_no_fault_and_its_search_knows_every_key(run: Any, tmp_path: Path) -> None:
    import inspect

    from agent import events
    from toolcrib import ToolcribError, registry
    from toolcrib.contract import errors as _errors

    done = run("docs", "--build", str(tmp_path / "site"), "--strict")
    assert done.code == 0, done.err
    first = Path(done.out.strip())
    assert first.is_file()
    raw = (first.parent / "searchindex.js").read_text("utf-8")
    known = set(json.loads(raw[len("Search.setIndex(") : -1])["alltitles"])
    wanted = {one.key for one in settings()} | set(registry.names())
    wanted |= {one.__name__ for one in vars(_errors).values() if inspect.isclass(one) and issubclass(one, ToolcribError)}
    wanted |= {name for name, one in vars(events).items() if inspect.isclass(one) and one.__module__ == events.__name__}
    assert {name for name in wanted if name not in known and f"toolcrib {name}" not in known} == set()
    assert "<script" in first.read_text("utf-8")
    assert f"url={first.parent.name}/index.html" in (tmp_path / "site" / "index.html").read_text("utf-8")
