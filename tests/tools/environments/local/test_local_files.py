"""Files on this machine: paths are resolved, files are never half written, and later links are not followed."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import Environment, EnvironmentFailed
from tools.environments import open_environment


def do(coroutine: Any) -> Any:
    return asyncio.run(coroutine)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_resolve_follows_home_cwd_and_links(env: Environment, folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "link").symlink_to("real")
    assert do(env.resolve("link/../x")) == str(folder / "x")
    assert do(env.resolve("link/new/file")) == str(folder / "real/new/file")
    assert do(env.resolve("~/x")) == os.path.realpath(Path("~/x").expanduser())
    assert do(env.resolve("~nobody-has-this-name/x")) == str(folder / "~nobody-has-this-name/x")
    assert do(env.resolve(".")) == str(folder)


def test_stat_says_what_is_there(env: Environment, folder: Path) -> None:
    (folder / "f").write_bytes(b"12345")
    (folder / "f").chmod(0o640)
    (folder / "l").symlink_to("f")
    os.mkfifo(folder / "p")
    info = do(env.stat(str(folder / "f")))
    assert (info.path, info.kind, info.size, info.mode) == (str(folder / "f"), "file", 5, 0o640)
    assert info.mtime == (folder / "f").stat().st_mtime
    assert [do(env.stat(str(folder / name))).kind for name in (".", "l", "p")] == ["dir", "link", "other"]
    assert do(env.stat(str(folder / "none"))) is None
    assert do(env.stat(str(folder / "f" / "below"))) is None


def test_read_whole_or_its_beginning(env: Environment, folder: Path) -> None:
    data = bytes(range(256)) * 10_000
    (folder / "f").write_bytes(data)
    assert do(env.read_file(str(folder / "f"))) == data
    assert do(env.read_file(str(folder / "f"), limit=5)) == data[:5]
    assert do(env.read_file(str(folder / "f"), limit=0)) == b""


def test_only_regular_files_are_read_or_replaced(env: Environment, folder: Path) -> None:
    """A FIFO without a writer would wait forever."""
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(folder)
        server.bind("sock")
        for path in (folder / "fifo", folder / "sock", Path("/dev/zero"), Path("/dev/tty")):
            with pytest.raises(OSError, match=r"not a regular file|No such device"):
                do(env.read_file(str(path)))
            with pytest.raises(OSError, match="not a regular file"):
                do(env.write_file(str(path), b"x"))
    with pytest.raises(IsADirectoryError):
        do(env.read_file(str(folder)))
    with pytest.raises(IsADirectoryError):
        do(env.write_file(str(folder), b"x"))
    with pytest.raises(FileNotFoundError):
        do(env.read_file(str(folder / "none")))
    with pytest.raises(NotADirectoryError):
        do(env.read_file("/dev/null/x"))


@pytest.fixture(autouse=True)
def _back_home() -> Any:
    here = Path.cwd()
    yield
    os.chdir(here)


def test_write_creates_parents_and_keeps_the_mode(env: Environment, folder: Path) -> None:
    path = folder / "a" / "b" / "f"
    old = os.umask(0o027)
    try:
        do(env.write_file(str(path), b"one"))
    finally:
        os.umask(old)
    assert path.read_bytes() == b"one"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o751)
    do(env.write_file(str(path), b"two"))
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"two", 0o751)
    do(env.write_file(str(path), b"three", mode=0o600))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(path.parent) == ["f"]


def test_a_reader_never_sees_half_a_file(env: Environment, folder: Path) -> None:
    """A file that was opened before keeps its old content, because the new one is another file that is moved into place."""
    path = folder / "f"
    path.write_bytes(b"old" * 1000)
    with path.open("rb") as before:
        do(env.write_file(str(path), b"new"))
        assert before.read() == b"old" * 1000
    assert path.read_bytes() == b"new"


def test_a_full_disk_leaves_the_old_file_whole(env: Environment, folder: Path) -> None:
    path = folder / "f"
    path.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            do(env.write_file(str(path), b"x" * 20_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert names(folder) == ["f"]


def test_a_link_put_there_after_judging_is_refused(env: Environment, folder: Path, tmp_path: Path) -> None:
    """The link may be the file itself or a folder in its path; its target stays unchanged."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "f").write_bytes(b"secret")
    judged = do(env.resolve("sub/f"))
    (folder / "sub").symlink_to(victim)
    last = do(env.resolve("f2"))
    (folder / "f2").symlink_to(victim / "f")
    for path in (judged, last):
        calls = (env.write_file(path, b"owned"), env.read_file(path), env.delete_file(path), env.list_dir(path))
        for call in calls:
            with pytest.raises(OSError, match="symbolic link is in the way; resolve") as caught:
                do(call)
            assert (caught.value.errno, caught.value.filename) == (errno.ELOOP, path)
    assert (victim / "f").read_bytes() == b"secret"
    assert names(victim) == ["f"]


@pytest.mark.parametrize("path", ["f", "./f", "", "/tmp/../f"])
def test_unresolved_paths_are_refused(env: Environment, path: str) -> None:
    with pytest.raises(OSError, match="resolve it first"):
        do(env.write_file(path, b"x"))


def test_nul_in_a_path_is_an_os_error(env: Environment) -> None:
    for call in (env.resolve("a\0b"), env.stat("/a\0b"), env.read_file("/a\0b"), env.write_file("/a\0b", b"")):
        with pytest.raises(OSError, match="NUL"):
            do(call)


def test_delete(env: Environment, folder: Path) -> None:
    (folder / "f").write_bytes(b"x")
    do(env.delete_file(str(folder / "f")))
    assert names(folder) == []
    with pytest.raises(FileNotFoundError):
        do(env.delete_file(str(folder / "f")))
    for path in (folder, Path("/")):
        with pytest.raises(IsADirectoryError):
            do(env.delete_file(str(path)))


def test_list_dir_by_name(env: Environment, folder: Path) -> None:
    for name in ("b", "a", ".hidden"):
        (folder / name).write_text(name)
    (folder / "dir").mkdir()
    (folder / "gone").symlink_to("nowhere")
    listed = do(env.list_dir(str(folder)))
    assert [(info.path, info.kind) for info in listed] == [
        (str(folder / ".hidden"), "file"),
        (str(folder / "a"), "file"),
        (str(folder / "b"), "file"),
        (str(folder / "dir"), "dir"),
        (str(folder / "gone"), "link"),
    ]
    assert {Path(info.path).parent for info in do(env.list_dir("/"))} == {Path("/")}
    with pytest.raises(NotADirectoryError):
        do(env.list_dir(str(folder / "a")))


@given(
    data=st.binary(max_size=2000),
    name=st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=60),
)
def test_what_is_written_is_read_back(data: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if name in (".", ".."):
            return

        async def main() -> None:
            env = open_environment("local", cwd=folder)
            path = await env.resolve("./" + name)
            await env.write_file(path, data)
            assert await env.read_file(path) == data
            await env.close()

        do(main())


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 128 KiB."""
    folder = tmp_path.resolve() / "small"
    folder.mkdir()
    if os.geteuid() or shutil.which("mount") is None:
        pytest.skip("only root mounts a disk")
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "small", str(folder)], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("size", [70_000, 200_000], ids=["for the file", "for the files beside it"])
def test_a_file_with_other_names_is_as_it_was_where_there_is_no_room(small: Path, size: int) -> None:
    """The time of its last change is restored too."""
    (small / "one").write_bytes(b"x" * 10_000)
    (small / "two").hardlink_to(small / "one")
    before = (small / "one").stat().st_mtime_ns
    env = open_environment("local", cwd=str(small))
    with pytest.raises(OSError, match="No space left"):
        do(env.write_file(str(small / "one"), b"y" * size))
    assert ((small / "two").read_bytes(), (small / "two").stat().st_mtime_ns) == (b"x" * 10_000, before)
    do(env.write_file(str(small / "one"), b"y" * 20_000))
    assert (small / "two").read_bytes() == b"y" * 20_000
    assert names(small) == ["one", "two"]
    do(env.close())


def test_what_cannot_be_put_back_is_told_and_lies_beside_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails during the write accepts no old content either."""
    (folder / "one").write_bytes(b"x" * 9000)
    (folder / "two").hardlink_to(folder / "one")
    number, write = (folder / "one").stat().st_ino, os.write

    def fails(fd: int, data: Any) -> int:
        if os.fstat(fd).st_ino != number:
            return write(fd, data)
        if data[:1] == b"y" and len(data) == 9000:
            return write(fd, data[:4000])
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    env = open_environment("local", cwd=str(folder))
    monkeypatch.setattr(os, "write", fails)
    with pytest.raises(OSError, match=r"one is half written, .*copy it from .*old beside it") as raised:
        do(env.write_file(str(folder / "one"), b"y" * 9000))
    monkeypatch.undo()
    (kept,) = (path for path in folder.iterdir() if path.name.endswith(".old"))
    assert kept.read_bytes() == b"x" * 9000
    assert kept.name in str(raised.value)
    assert (folder / "two").read_bytes() == b"y" * 4000 + b"x" * 5000
    do(env.close())


def test_a_name_as_long_as_names_may_be_is_written(env: Environment, folder: Path) -> None:
    """The characters have several bytes."""
    for name in ("\u6f22" * 85, "n" * 255):
        do(env.write_file(str(folder / name), b"1"))
        (folder / "other name").hardlink_to(folder / name)
        do(env.write_file(str(folder / name), b"2"))
        assert (folder / "other name").read_bytes() == b"2"
        (folder / "other name").unlink()


def test_nothing_stays_open(env: Environment, folder: Path, open_files: Any) -> None:
    path = str(folder / "f")
    do(env.write_file(path, b"x"))
    before = open_files()
    for call in (
        env.read_file(path), env.list_dir(str(folder)), env.stat(path), env.write_file(path, b"y"), env.delete_file(path),
        env.read_file(path), env.list_dir(path), env.read_file(path + "/below"), env.read_file("/dev/zero"),
    ):  # fmt: skip
        try:
            do(call)
        except OSError:
            continue
    assert open_files() <= before


def test_a_starting_folder_must_exist(folder: Path) -> None:
    with pytest.raises(EnvironmentFailed, match="does not exist: create it"):
        open_environment("local", cwd=str(folder / "none"))
