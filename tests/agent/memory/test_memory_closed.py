"""Only the tool ``memory`` reads and writes the memory's files; other tools can't by name, by link, by pattern, or from above."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, assemble
from agent.memory.document import note_of
from agent.memory.files import MemoryFolder
from toolcrib import Principal
from tools.dispatch.bridge import close_loop
from tools.judge.own_file_names import may_be_kept

NOTE = "likes apricots"


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "kept" / "state"))
    return tmp_path / "kept" / "state"


@pytest.fixture
def crib(tmp_path: Path, state: Path) -> Iterator[Crib]:
    """A project with links to the memory, as a person or a repository may have put them there."""
    folder = MemoryFolder(Principal())
    file = folder.file("memory")
    folder.change(file, lambda document: document.with_note(note_of(NOTE), file.title))
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.md").symlink_to(file.path)
    (project / "notes.txt").symlink_to(os.path.relpath(file.path, project))
    (project / "folder").symlink_to(state / "memory")
    (project / "up").symlink_to(state.parent)
    with assemble(project_dir=project) as made:
        yield made
    close_loop()


def refused(crib: Crib, name: str, args: dict[str, Any]) -> str:
    """Return the text of the refusal; a call that would need a person's approval counts as refused."""
    session = crib.open_session()
    try:
        result = session.call(name, args).result
    finally:
        session.close_sync()
    assert NOTE not in str(result.to_json())
    assert not result.is_success, f"{name} {args} was done"
    return str(result.message)


@pytest.mark.parametrize(
    "path",
    [
        "{memory}/local/MEMORY.markdown",
        "{memory}/local/../local/MEMORY.markdown",
        "{memory}//local/MEMORY.markdown",
        "notes.md",
        "notes.txt",
        "folder/local/MEMORY.markdown",
        "up/state/memory/local/MEMORY.markdown",
        "../kept/state/memory/local/MEMORY.markdown",
        "{memory}/local/principal.json",
    ],
)
def test_file_tools_neither_read_nor_write_them(crib: Crib, state: Path, path: str) -> None:
    given = path.format(memory=state / "memory")
    file = state / "memory" / "local" / "MEMORY.markdown"
    before = file.read_bytes()
    for name, args in (
        ("read_file", {"path": given}),
        ("write_file", {"path": given, "content": "- mine\n"}),
        ("patch", {"path": given, "old_string": "likes", "new_string": "hates"}),
    ):
        assert "toolcrib's own" in refused(crib, name, args)
    assert file.read_bytes() == before


@pytest.mark.parametrize("path", ["{memory}", "{memory}/local", "folder", "folder/local", "{memory}/.."])
def test_searches_do_not_enter_them(crib: Crib, state: Path, path: str) -> None:
    given = path.format(memory=state / "memory")
    assert "toolcrib's own" in refused(crib, "search_files", {"pattern": "apricots", "path": given})


@pytest.mark.parametrize("target", ["content", "files"])
def test_a_search_above_them_leaves_them_out(crib: Crib, state: Path, target: str) -> None:
    (state.parent / "jam.md").write_text("apricots\n")
    session = crib.open_session()
    try:
        pattern = "apricots" if target == "content" else "*.m*"
        result = session.call("search_files", {"pattern": pattern, "path": "up", "target": target}).result
    finally:
        session.close_sync()
    text = str(result.to_json())
    assert "toolcrib's own settings and state were left out" in text
    assert "jam.md" in text
    assert NOTE not in text
    assert "MEMORY.markdown" not in text


def test_a_new_document_is_not_written_either(crib: Crib, state: Path) -> None:
    for path in (state / "memory" / "local" / "USER.markdown", Path("folder/of-1/MEMORY.markdown"), Path("folder/x.md")):
        assert "toolcrib's own" in refused(crib, "write_file", {"path": str(path), "content": "- mine\n"})
    assert not (state / "memory" / "x.md").exists()


COMMANDS = [
    "cat {file}",
    "cat notes.md",
    "cat notes.txt",
    "head -3 ./notes.md",
    "grep apricots notes.md",
    "less notes.txt",
    "wc -c folder/local/MEMORY.markdown",
    "cat folder/local/*",
    "cat folder/*/*.markdown",
    "cat {memory}/*/MEMORY*",
    "cat {state}/mem*/local/MEMORY.markdown",
    "cat < {file}",
    "cat < notes.md",
    "grep -r apricots {memory}",
    "grep -r apricots folder/",
    "rg apricots {state}",
    "cd {memory}/local && cat MEMORY.markdown",
    "cd folder/local; cat MEM*",
    "cd folder/local && cat MEMORY.markdown",
    "cd folder && cd local && head MEMORY.markdown",
    'F={file}; cat "$F"',
    "cat $(echo {file})",
    "cp {file} mine",
    "cp notes.md mine",
    "cp -r folder mine",
    "tar cf - {memory}",
    "ln -s {file} again.md && cat again.md",
    "ln {file} again.md",
    "echo '- mine' >> {file}",
    "echo '- mine' >> notes.md",
    "echo x > folder/local/USER.markdown",
    "sed -i s/likes/hates/ {file}",
    "sed -i s/likes/hates/ notes.md",
    "tee notes.md < /dev/null",
    "rm {file}",
    "rm -r {memory}",
    "mv {memory} elsewhere",
    "find {memory} -name '*.markdown' -exec cat {{}} +",
    "python3 -c 'print(open(\"{file}\").read())'",
    "sort notes.md",
    "awk 1 notes.md",
    "base64 notes.txt",
    "diff notes.md /dev/null",
    "find .. -name '*.markdown' -exec cat {{}} +",
    "find .. -name '*.markdown' | xargs cat",
    "cat $(find .. -name '*.markdown')",
    "find up/ -iname 'memory.*' -exec cat {{}} +",
    "ls ../kept/state/memory/*/*.markdown | xargs cat",
    "ls folder/local/* | xargs cat",
    "find .. | tar -cf n.tar -T -; tar xOf n.tar",
    "grep -rh --include=*.markdown . ..",
    "cp -r .. mine",
    "tar cf - -C .. .",
    "find .. -name '*.markdown' | xargs sed -i s/likes/hates/",
    "find .. -name '*.markdown' | xargs -I{{}} cp README.md {{}}",
    "find .. -name 'tool*' -type f -exec strings {{}} +",
    "find .. -name '*-wal' -exec strings {{}} +",
    "find .. -name '*backup*' -exec strings {{}} +",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_neither_read_nor_write_them(crib: Crib, state: Path, command: str) -> None:
    file = state / "memory" / "local" / "MEMORY.markdown"
    before = file.read_bytes()
    refused(crib, "terminal", {"command": command.format(file=file, memory=state / "memory", state=state)})
    assert file.read_bytes() == before


LISTED_BEFORE = [
    "xargs cat < list",
    "xargs -a list cat",
    "tar cf n.tar -T list && tar xOf n.tar",
    'while read f; do cat "$f"; done < list',
    "cat $(cat list)",
    "sed -i s/likes/hates/ $(cat list)",
    "cpio -o < list",
]


@pytest.mark.parametrize("command", LISTED_BEFORE)
def test_a_list_of_an_earlier_command_leads_to_them_no_more(crib: Crib, state: Path, command: str) -> None:
    file = state / "memory" / "local" / "MEMORY.markdown"
    before = file.read_bytes()
    session = crib.open_session()
    try:
        session.call("terminal", {"command": "find .. -name '*.markdown' > list"})
        result = session.call("terminal", {"command": command}).result
    finally:
        session.close_sync()
    assert NOTE not in str(result.to_json())
    assert file.read_bytes() == before


def test_all_that_is_kept_is_known_by_its_name(crib: Crib, state: Path) -> None:
    """A search through a home decides by file names: a memory file with another name would be found without approval."""
    session = crib.open_session()
    try:
        session.call("memory", {"action": "add", "target": "user", "content": "is called Ann"})
        session.call("memory", {"action": "add", "target": "project", "content": "builds with make"})
        session.call("write_file", {"path": "x.txt", "content": "x\n"})
    finally:
        session.close_sync()
    files = [path for path in state.rglob("*") if path.is_file()]
    assert len(files) > 3
    assert [path.name for path in files if not may_be_kept(path.name)] == []
