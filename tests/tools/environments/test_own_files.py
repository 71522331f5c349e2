"""Hard links of toolcrib's own files: their targets, and the refusal when one is opened."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.environments import own_files
from tools.environments.local import LocalEnvironment
from tools.environments.own_files import NONE, OwnFiles

KEPT = ("config/config.yaml", "config/secrets.env", "config/plugins/mine/__init__.py", "state/toolcrib.db")
MORE = ("state/toolcrib.db-wal", "state/memory/1/MEMORY.markdown", "state/undo/contents.db")
CODE = ("site-packages/toolcrib/__init__.py", "site-packages/pluggy/_hooks.py", "bin/toolcrib")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with toolcrib's files, and a project."""
    for name in (*KEPT, *MORE, *CODE):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"content of {name}\n")
    (tmp_path / "project" / "src").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def own(home: Path) -> OwnFiles:
    return OwnFiles(
        [str(home / "config"), str(home / "state"), str(home / "state" / "toolcrib.db")],
        [str(home / "site-packages"), str(home / "bin" / "toolcrib")],
    )


@pytest.mark.parametrize("name", [*KEPT, *MORE, *CODE])
@pytest.mark.parametrize("link", ["notes.txt", "src/notes.txt"])
def test_another_name_leads_to_the_own_file(own: OwnFiles, home: Path, name: str, link: str) -> None:
    path = home / "project" / link
    path.hardlink_to(home / name)
    assert own.leads_to(str(path)) == str(home / name)
    assert own.leads_to(str(path), path.stat()) == str(home / name)
    assert own.leads_to(f"/project/{link}", root=str(home)) == str(home / name)


def test_every_other_path_leads_to_itself(own: OwnFiles, home: Path) -> None:
    one, two = home / "project" / "one", home / "project" / "two"
    one.write_text("one\n")
    two.hardlink_to(one)
    (home / "project" / "notes.txt").hardlink_to(home / "config" / "config.yaml")
    (home / "project" / "link").symlink_to(home / "config" / "config.yaml")
    (home / "bin" / "other").write_text("a program beside ours\n")
    (home / "project" / "other").hardlink_to(home / "bin" / "other")
    paths = [one, two, home, home / "project" / "missing", home / "project" / "link", home / "config" / "config.yaml"]
    for path in [*paths, home / "project" / "other", home / "bin" / "other"]:
        assert own.leads_to(str(path)) == str(path)
    assert own.leads_to("/a\0b") == "/a\0b"
    assert NONE.leads_to(str(home / "project" / "notes.txt")) == str(home / "project" / "notes.txt")


def test_own_files_are_known_as_they_are_now(own: OwnFiles, home: Path) -> None:
    """Settings are written by replacing a file, and a state folder can get new files at any time."""
    config, notes = home / "config" / "config.yaml", home / "project" / "notes.txt"
    notes.hardlink_to(config)
    assert own.leads_to(str(notes)) == str(config)
    (home / "config" / "new").write_text("new\n")
    (home / "config" / "new").replace(config)
    assert own.leads_to(str(notes)) == str(notes)
    notes.unlink()
    notes.hardlink_to(config)
    assert own.leads_to(str(notes)) == str(config)
    draft = home / "state" / "drafts" / "1"
    draft.parent.mkdir()
    draft.write_text("draft\n")
    (home / "project" / "draft").hardlink_to(draft)
    assert own.leads_to(str(home / "project" / "draft")) == str(draft)


def test_installed_code_is_known_after_it_was_replaced(own: OwnFiles, home: Path) -> None:
    """An installer does this: it links the files of its cache."""
    two = home / "project" / "two"
    two.hardlink_to(home / "site-packages" / "pluggy" / "_hooks.py")
    assert own.leads_to(str(two)) == str(home / "site-packages" / "pluggy" / "_hooks.py")
    for number in range(5):
        cached, code = home / f"cached{number}", home / "site-packages" / f"new{number}.py"
        cached.write_text("x = 1\n")
        assert own.leads_to(str(cached)) == str(cached)
        code.hardlink_to(cached)
        assert own.leads_to(str(cached)) == str(code)


def test_other_files_may_be_named_later(own: OwnFiles, home: Path) -> None:
    (home / "project" / "two").hardlink_to(home / "bin" / "toolcrib")
    own.know([], [])
    assert own.leads_to(str(home / "project" / "two")) == str(home / "project" / "two")
    own.know([str(home / "bin")], [])
    assert own.leads_to(str(home / "project" / "two")) == str(home / "bin" / "toolcrib")


def test_with_too_many_own_files_each_file_with_several_names_is_closed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_files, "MOST_FILES", 3)
    own = OwnFiles([str(home / "state"), str(home / "config")])
    (home / "project" / "one").write_text("one\n")
    assert own.leads_to(str(home / "project" / "one")) == str(home / "project" / "one")
    (home / "project" / "two").hardlink_to(home / "project" / "one")
    assert own.leads_to(str(home / "project" / "two")) == str(home / "state")


@pytest.fixture
def environment(own: OwnFiles, home: Path) -> LocalEnvironment:
    return LocalEnvironment(str(home / "project"), own=own)


@pytest.mark.parametrize("name", ["config/secrets.env", "state/toolcrib.db", "site-packages/pluggy/_hooks.py"])
@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda environment, path: environment.read_file(path), id="read"),
        pytest.param(lambda environment, path: environment.write_file(path, b"x"), id="write"),
        pytest.param(lambda environment, path: environment.replace_file(path, b"x"), id="replace"),
    ],
)
def test_a_link_that_came_after_the_path_was_resolved_is_refused(
    environment: LocalEnvironment, home: Path, name: str, act: Callable[..., object]
) -> None:
    """The opened file is compared again, whatever its path was during the judgement."""
    file = home / "project" / "notes.txt"
    file.write_text("notes\n")
    path = asyncio.run(environment.resolve("notes.txt"))
    assert path == str(file)
    file.unlink()
    os.link(home / name, file)
    with pytest.raises(OSError, match=f"another name of toolcrib's own {home / name}"):
        asyncio.run(act(environment, path))  # type: ignore[arg-type]  # coroutines
    assert (home / name).read_text() == f"content of {name}\n"
    assert asyncio.run(environment.resolve("notes.txt")) == str(home / name)


def test_files_with_several_names_are_read_and_written(environment: LocalEnvironment, home: Path) -> None:
    one, two = home / "project" / "one", home / "project" / "two"
    one.write_text("one\n")
    two.hardlink_to(one)
    path = asyncio.run(environment.resolve("two"))
    asyncio.run(environment.write_file(path, b"two\n"))
    assert asyncio.run(environment.read_file(str(one))) == b"two\n"


def test_symbolic_links_and_hard_links_are_followed_together(environment: LocalEnvironment, home: Path) -> None:
    other = home / "other"
    other.mkdir()
    (other / "notes").hardlink_to(home / "config" / "config.yaml")
    (home / "project" / "folder").symlink_to(other)
    (home / "project" / "notes").symlink_to(other / "notes")
    for name in ("folder/notes", "notes", "src/../notes", str(other / "notes")):
        assert asyncio.run(environment.resolve(name)) == str(home / "config" / "config.yaml")
