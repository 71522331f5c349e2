from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from toolcrib import ExecutionFailed, InvalidArguments, NotFound, ReadsFile
from tools.files.places import HostFiles


def test_lines_are_numbered_and_counted(call, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    result = call("read_file", path="a.txt", offset=2, limit=1)
    assert result.data["content"] == "two"
    assert (result.data["first_line"], result.data["last_line"], result.data["total_lines"]) == (2, 2, 3)
    assert result.views["model"] == f"{tmp_path}/a.txt: lines 2-2 of 3 (continue with offset=3)\n2|two"
    assert call.judged == (ReadsFile(str(tmp_path / "a.txt")),)


def test_ten_megabytes_give_a_bounded_page(call, tmp_path: Path) -> None:
    (tmp_path / "big").write_text("x" * 79 + "\n")
    with (tmp_path / "big").open("w") as file:
        file.writelines(f"line {number}\n" for number in range(1_000_000))
    result = call("read_file", path="big")
    assert result.data["total_lines"] == 1_000_000
    assert len(result.views["model"]) < 40_000
    assert "900000|line 899999" in call.text("read_file", path="big", offset=900_000, limit=1)


def test_what_lies_beyond_the_read_limit_is_said(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.files.read.READ_BYTES", 100)
    (tmp_path / "big").write_text("é" * 40 + "\nsecond\n" + "z" * 500)
    text = call.text("read_file", path="big")
    assert "of more than 2" in text
    assert "z" not in text
    with pytest.raises(InvalidArguments, match="sed -n"):
        call("read_file", path="big", offset=50)


def test_long_lines_are_clipped(call, tmp_path: Path) -> None:
    (tmp_path / "min.js").write_text("a" * 1_000_000)
    text = call.text("read_file", path="min.js")
    assert "[998000 more characters]" in text
    assert len(text) < 3000


@pytest.mark.parametrize(
    ("data", "content", "encoding"),
    [
        (b"\xef\xbb\xbfhi\r\nyou\r\n", "hi\nyou", "utf-8"),
        ("grüß\n".encode("latin-1"), "grüß", "latin-1"),
        ("hi\n".encode("utf-16"), "hi", "utf-16-le"),
        ("日本\n".encode(), "日本", "utf-8"),
        (b"", "", "utf-8"),
    ],
)
def test_encodings(call, tmp_path: Path, data: bytes, content: str, encoding: str) -> None:
    (tmp_path / "f").write_bytes(data)
    result = call("read_file", path="f")
    assert (result.data["content"], result.data["encoding"]) == (content, encoding)
    assert ("Latin-1" in result.views["model"]) == (encoding == "latin-1")


@pytest.mark.parametrize(("data", "kind"), [(b"\x89PNG\r\n\x1a\n\0\0", "PNG image"), (b"\x01\x02\x03\x00" * 9, "binary data")])
def test_binary_is_described_not_dumped(call, tmp_path: Path, data: bytes, kind: str) -> None:
    (tmp_path / "f").write_bytes(data)
    assert call("read_file", path="f").data == {"path": str(tmp_path / "f"), "binary": kind, "size": len(data)}


def test_a_folder_is_listed(call, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a").touch()
    assert call("read_file", path=".").data["entries"] == ["a", "sub/"]


def test_missing_names_what_is_close(call, tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    with pytest.raises(NotFound, match=r"did you mean .*/README\.md\?"):
        call("read_file", path="readme.txt")
    with pytest.raises(NotFound, match="its nearest existing folder"):
        call("read_file", path="no/such/file")
    with pytest.raises(NotFound, match="none with a similar name"):
        call("read_file", path="qqqqqqqq")


def test_bad_paths_and_offsets(call, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n")
    for path in ("", "a\0b"):
        with pytest.raises(InvalidArguments, match="path"):
            call("read_file", path=path)
    with pytest.raises(InvalidArguments, match="only 1 lines"):
        call("read_file", path="a", offset=3)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ExecutionFailed, match="not a regular file"):
        call("read_file", path="pipe")


def test_a_link_put_there_after_judging_is_not_followed(call, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("fine")
    (tmp_path / "secret").write_text("secret")

    def swap() -> None:
        (tmp_path / "a").unlink()
        (tmp_path / "a").symlink_to(tmp_path / "secret")

    call.between = swap
    with pytest.raises(ExecutionFailed, match="link"):
        call("read_file", path="a")


def test_spilled_results_are_read_from_this_machine(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spilled = call.scope.spill_dir / "c0.txt"
    spilled.write_text("all of it\n")
    monkeypatch.setattr(call.scope, "_environment", None)
    monkeypatch.setattr(call.scope, "open_environment", lambda: pytest.fail("the environment was asked"))
    assert call("read_file", path=str(spilled)).data["content"] == "all of it"
    assert call("read_file", path=str(call.scope.spill_dir)).data["entries"] == ["c0.txt"]


def test_a_spilled_result_has_no_second_name(call, tmp_path: Path) -> None:
    """A hard link there may be a name of another file, which was never judged."""
    (tmp_path / "keys").write_text("keys\n")
    (call.scope.spill_dir / "c0.txt").hardlink_to(tmp_path / "keys")
    with pytest.raises(ExecutionFailed, match="not a regular file"):
        call("read_file", path=str(call.scope.spill_dir / "c0.txt"))
    (call.scope.spill_dir / "c0.txt").unlink()
    (call.scope.spill_dir / "c0.txt").write_text("result\n")
    files = HostFiles()
    assert asyncio.run(files.read_file(str(call.scope.spill_dir / "c0.txt"))) == b"result\n"
    (tmp_path / "other").hardlink_to(call.scope.spill_dir / "c0.txt")
    with pytest.raises(OSError, match="a hard link of a file elsewhere"):
        asyncio.run(files.read_file(str(call.scope.spill_dir / "c0.txt")))


def test_what_is_missing_in_the_spill_folder(call) -> None:
    (call.scope.spill_dir / "c0.txt").touch()
    with pytest.raises(NotFound, match="did you mean"):
        call("read_file", path=str(call.scope.spill_dir / "c1.txt"))
    (call.scope.spill_dir / "c1.txt").symlink_to(call.scope.spill_dir / "c0.txt")
    assert call("read_file", path=str(call.scope.spill_dir / "c1.txt")).data["path"].endswith("c0.txt")


def test_a_link_out_of_the_spill_folder_is_none_of_it(call, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n")
    (call.scope.spill_dir / "out").symlink_to(tmp_path / "a")
    call("read_file", path=str(call.scope.spill_dir / "out"))
    assert call.judged == (ReadsFile(str(tmp_path / "a")),)
