"""Documents on the disk: private, whole or absent, one writer at a time, and never another user's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.memory.document import MemoryDocument, note_of
from agent.memory.files import MemoryFolder, MemoryUnreadable, everyone, remembers
from toolcrib import Principal

LOCAL, ANN = Principal(), Principal("telegram", "ann")


def add(folder: MemoryFolder, text: str, target: str = "memory") -> None:
    file = folder.file(target)
    folder.change(file, lambda document: document.with_note(note_of(text), file.title))


def test_files_and_folders_are_the_persons_alone(tmp_path: Path) -> None:
    folder = MemoryFolder(ANN, Path("/srv/my project"), root=tmp_path / "memory")
    for target in ("memory", "user", "project"):
        add(folder, "x", target)
    for path in [tmp_path / "memory", *(tmp_path / "memory").rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    assert folder.file("project").path.name.startswith("my-project-")
    assert folder.file("project").path.read_text().startswith("# Project /srv/my project\n\n- x <!--")
    assert [file.path.stem.partition("-")[0] for file in folder.every_file()] == ["MEMORY", "USER", "my"]


def test_no_users_id_chooses_anothers_folder(tmp_path: Path) -> None:
    ids = ["", "local", "..", "../local", "/etc", "of-1", "a" * 3000, "\udcff", "a:b", "a\nb", "ann"]
    people = [Principal(platform, user) for platform in ("telegram", "local", "cli", "telegram:a") for user in ids]
    paths = {person.key: MemoryFolder(person, root=tmp_path).path for person in people}
    assert len(set(paths.values())) == len(paths)
    assert {path.parent for path in paths.values()} == {tmp_path}
    assert all(path.name == "local" or path.name.startswith("of-") for path in paths.values())
    assert remembers(LOCAL)
    assert not remembers(Principal("telegram"))
    for person in (ANN, Principal("telegram", "../local"), LOCAL):
        add(MemoryFolder(person, root=tmp_path), "x")
    assert everyone(tmp_path) == [LOCAL, Principal("telegram", "../local"), ANN]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("bytes", "it is not text in UTF-8: byte 3 is invalid"),
        ("zero", "it has zero bytes"),
        ("large", "it has more than 256 KiB"),
        ("link", "it is a link"),
        ("folder", "it is not a regular file"),
        ("pipe", "it is not a regular file"),
    ],
)
def test_what_is_no_document_is_reported_and_left(tmp_path: Path, kind: str, why: str) -> None:
    folder = MemoryFolder(LOCAL, root=tmp_path / "memory")
    add(folder, "x")
    path = folder.file("memory").path
    path.unlink()
    if kind == "link":
        (tmp_path / "elsewhere").write_text("- of another user\n")
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes({"bytes": b"- \xff\n", "zero": b"- \0\n", "large": b"- x\n" * 70_000}[kind])
    before = path.lstat()
    with pytest.raises(MemoryUnreadable, match=why):
        add(folder, "y")
    after = path.lstat()
    assert (before.st_ino, before.st_mtime_ns, before.st_size) == (after.st_ino, after.st_mtime_ns, after.st_size)
    if kind == "link":
        assert (tmp_path / "elsewhere").read_text() == "- of another user\n"


_ADDS = """
import sys
from pathlib import Path
from agent.memory.document import note_of
from agent.memory.files import MemoryFolder
from toolcrib import Principal
folder = MemoryFolder(Principal(), root=Path(sys.argv[1]))
file = folder.file("memory")
for number in range(25):
    folder.change(file, lambda document: document.with_note(note_of(f"{sys.argv[2]} {number}"), file.title))
"""


def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    started = [subprocess.Popen([sys.executable, "-c", _ADDS, str(tmp_path), name]) for name in ("one", "two")]
    assert [process.wait(60) for process in started] == [0, 0]
    texts = [note.text for note in MemoryFolder(LOCAL, root=tmp_path).file("memory").read().notes]
    for name in ("one", "two"):
        assert [text for text in texts if text.startswith(name)] == [f"{name} {number}" for number in range(25)]


def test_a_change_that_fails_leaves_the_file(tmp_path: Path) -> None:
    folder = MemoryFolder(LOCAL, root=tmp_path)
    add(folder, "x")
    before = folder.file("memory").raw()

    def fail(document: MemoryDocument) -> MemoryDocument:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        folder.change(folder.file("memory"), fail)
    assert folder.file("memory").raw() == before
