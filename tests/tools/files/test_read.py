from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from toolcrib import ExecutionFailed, InvalidArguments, NotFound, ReadsFile, ToolCall
from toolcrib.contract.context import mint_context
from tools.files.places import HostFiles, is_spilled
from tools.redact import Redactor


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
    assert "zz" not in text.replace(str(tmp_path), "")
    with pytest.raises(InvalidArguments, match="sed -n"):
        call("read_file", path="big", offset=50)


def test_long_lines_are_clipped(call, tmp_path: Path) -> None:
    (tmp_path / "min.js").write_text("a" * 1_000_000)
    text = call.text("read_file", path="min.js")
    assert "[998000 more characters]" in text
    assert len(text) < 3000


def test_a_long_line_is_read_on_by_column(call, tmp_path: Path) -> None:
    """Every part gives the column of the next part, until the line ends."""
    line = "".join(f"{number:06}" for number in range(12_000))
    (tmp_path / "min.js").write_text(f"one\r\n{line}\r\nthree\r\n")
    page = call("read_file", path="min.js")
    assert page.data["note"] == "longer lines are cut: read the rest of one with offset=LINE and column=2001"
    assert page.data["content"].startswith(f"one\n{line[:2000]}... [70000 more characters]\nthree")
    found, column = line[:2000], 2001
    while column:
        part = call("read_file", path="min.js", offset=2, column=column)
        found += part.data["content"]
        assert part.views["model"].endswith(f"\n2|{part.data['content']}")
        assert f"-{len(found)} of 72000" in part.data["note"]
        column = len(found) + 1 if f"(continue with column={len(found) + 1})" in part.data["note"] else 0
    assert found == line
    with pytest.raises(InvalidArguments, match="column: line 2 has only 72000 characters"):
        call("read_file", path="min.js", offset=2, column=72_001)
    with pytest.raises(InvalidArguments, match="only 3 lines"):
        call("read_file", path="min.js", offset=4, column=1)


def test_a_secret_in_a_long_line_is_not_cut_in_two(call, tmp_path: Path) -> None:
    """Half of a secret would not be recognised in the result."""
    call.scope.redactor = Redactor({"API_KEY": "opensesame-1234567890"})
    (tmp_path / "f").write_text("a" * 1990 + "opensesame-1234567890" + "b" * 50_000)
    page = call("read_file", path="f").data["content"]
    rest = call("read_file", path="f", column=1995).data["content"]
    assert "sesame" not in page + rest
    assert "12345" not in page + rest


def test_a_first_line_beyond_the_read_limit_is_not_an_empty_file(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.files.read.READ_BYTES", 100)
    (tmp_path / "big").write_text("v" * 150 + "\nsecond\n")
    result = call("read_file", path="big")
    assert "is empty" not in result.views["model"]
    assert result.views["model"].startswith(f"{tmp_path}/big: its first line is longer than the read limit [")
    for way in ("line 1 is longer", "offset=1 and column=1", f"tail -c +101 {tmp_path}/big"):
        assert way in result.data["note"]
    part = call("read_file", path="big", column=1)
    assert part.data["content"] == "v" * 100
    assert "characters 1-100 of more than 100; only the first 100 bytes are read" in part.data["note"]
    with pytest.raises(InvalidArguments, match="the part of line 1 that is read has only 100 characters"):
        call("read_file", path="big", column=101)
    (tmp_path / "big").write_text("one\n" + "x" * 96 + "\nthird\n")
    monkeypatch.setattr("tools.files.read.READ_BYTES", 101)
    note = call("read_file", path="big").data["note"]
    assert "line 3 comes after them: read the rest in the terminal: tail -c +102 " in note


def test_a_file_is_empty_only_without_a_byte(call, tmp_path: Path) -> None:
    for data, said in [(b"", "is empty"), (b"\n", "lines 1-1 of 1"), (b"\xef\xbb\xbf", "only a byte order mark")]:
        (tmp_path / "f").write_bytes(data)
        assert said in call.text("read_file", path="f")
        assert ("is empty" in call.text("read_file", path="f")) == (not data)


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


def test_only_a_path_of_the_spill_folder_is_followed_on_this_machine(call, tmp_path: Path) -> None:
    (tmp_path / "led").symlink_to(call.scope.spill_dir)
    (tmp_path / "loop").symlink_to("loop")
    (call.scope.spill_dir / "out").symlink_to(tmp_path)
    ctx = mint_context(ToolCall("c1", "read_file", {}), call.scope)
    assert is_spilled(ctx, f"{call.scope.spill_dir}/c0.txt")
    for path in (f"{tmp_path}/led/c0.txt", f"{tmp_path}/loop", f"{call.scope.spill_dir}/out/x", f"{call.scope.spill_dir}/../x"):
        assert not is_spilled(ctx, path)


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
