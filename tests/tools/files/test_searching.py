from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from toolcrib import ExecutionFailed, InvalidArguments, NotFound, ReadsFile
from tools.files import matches


@pytest.fixture(params=["rg", "find"])
def tool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Run the test once with ripgrep, and once as on a machine without it."""
    if request.param == "rg":
        if shutil.which("rg") is None:
            pytest.skip("ripgrep is not installed")
        return "rg"
    folder = tmp_path_factory.mktemp("bin")
    for name in ("find", "sort", "xargs", "grep", "head"):
        (folder / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setattr(matches, "_START", [part.replace(matches._PATH, str(folder)) for part in matches._START])
    return "find"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in {
        "a.py": "import os\nTODO one\nlast\n",
        "src/b.py": "x\nTODO two\n",
        "src/c.ts": "todo three\n",
        "src/deep/d.min.js": "TODO min\n",
        ".github/e.yml": "TODO hidden\n",
        ".git/config": "TODO git\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "0.dat").write_bytes(b"TODO\0\1")
    (tmp_path / "1.dat").write_bytes(b"-\n" * 50_000 + b"\0\n")
    return tmp_path


def skipped(tool: str) -> str:
    """Return the note about the tree's binary files. grep takes one as text, because its beginning is text."""
    return f"binary files not searched to the end: {2 if tool == 'rg' else 1}; to search one, give it as path"


def found(result: Any) -> list[tuple[str, int, str]]:
    return [(row["path"], row["line"], row["text"]) for row in result.data["matches"]]


@pytest.mark.parametrize("own", ["src", "src/b.py", "a.py", "[src]", "s*"])
def test_own_files_are_left_out_and_that_is_said(call, tree: Path, tool: str, own: str) -> None:
    """A search of a home finds all but toolcrib's own files. Special characters of patterns in names are literal."""
    (tree / "[src]").mkdir()
    (tree / "s*").mkdir()
    for name in ("[src]/x.py", "s*/x.py"):
        (tree / name).write_text("TODO sign\n")
    whole = {name for name, _, _ in found(call("search_files", pattern="TODO"))}
    names = set(call("search_files", pattern="*", target="files").data["files"])
    call.scope.settings = {"files.own": [str(tree / own), str(tree.parent / "elsewhere")]}
    wanted = {name for name in whole if name != own and not name.startswith(f"{own}/")}
    assert wanted != whole
    result = call("search_files", pattern="TODO")
    assert {name for name, _, _ in found(result)} == wanted
    assert result.data["note"] == f"{skipped(tool)}; toolcrib's own settings and state were left out"
    assert call.judged == (ReadsFile(str(tree), (str(tree / own),)),)
    assert {name for name, _, _ in found(call("search_files", pattern="TODO", glob="*.{py,ts}"))} < wanted
    listed = set(call("search_files", pattern="*", target="files").data["files"])
    assert listed == {name for name in names if name != own and not name.startswith(f"{own}/")}


def test_content_is_found_in_the_order_of_paths(call, tree: Path, tool: str) -> None:
    result = call("search_files", pattern=r"TODO \w+")
    assert found(result) == [
        (".github/e.yml", 1, "TODO hidden"),
        ("a.py", 2, "TODO one"),
        ("src/b.py", 2, "TODO two"),
        ("src/deep/d.min.js", 1, "TODO min"),
    ]
    assert result.data["note"] == skipped(tool)
    assert "src/b.py\n2:TODO two" in result.views["model"]
    assert call.judged == (ReadsFile(str(tree)),)


@pytest.mark.parametrize(
    ("args", "paths"),
    [
        ({"glob": "*.py"}, ["a.py", "src/b.py"]),
        ({"glob": "*.{ts,py}", "ignore_case": True}, ["a.py", "src/b.py", "src/c.ts"]),
        ({"glob": "!*.py"}, [".github/e.yml", "src/deep/d.min.js"]),
        ({"glob": "src/**/*.js"}, ["src/deep/d.min.js"]),
        ({"path": "src"}, ["src/b.py", "src/deep/d.min.js"]),
        ({"path": "src/b.py"}, ["src/b.py"]),
    ],
)
def test_where_it_looks(call, tree: Path, tool: str, args: dict[str, Any], paths: list[str]) -> None:
    assert [path for path, _, _ in found(call("search_files", pattern="TODO", **args))] == paths


@pytest.mark.parametrize(
    ("args", "files"),
    [
        ({"pattern": "*.py"}, ["a.py", "src/b.py"]),
        ({"pattern": "*.{ts,js}", "path": "src"}, ["src/c.ts", "src/deep/d.min.js"]),
        ({"pattern": "src/**"}, ["src/b.py", "src/c.ts", "src/deep/d.min.js"]),
        ({"pattern": "*", "glob": "!*.min.js", "path": "src"}, ["src/b.py", "src/c.ts"]),
        ({"pattern": "nothing*"}, []),
    ],
)
def test_files_by_name(call, tree: Path, tool: str, args: dict[str, Any], files: list[str]) -> None:
    assert call("search_files", target="files", **args).data["files"] == files


def test_context_lines_are_marked(call, tree: Path, tool: str) -> None:
    result = call("search_files", pattern="one", context=1)
    assert result.views["model"] == f"a.py\n1-import os\n2:TODO one\n3-last\n[{skipped(tool)}]"
    assert [row.get("context", False) for row in result.data["matches"]] == [True, False, True]


def test_results_are_bounded_and_say_how_to_narrow(call, tmp_path: Path, tool: str) -> None:
    (tmp_path / "many").write_text("match\n" * 5000)
    (tmp_path / "wide").write_text("match " * 100_000 + "\n")
    result = call("search_files", pattern="match", limit=7)
    assert len(result.data["matches"]) == 7
    assert "first 7 matches shown; narrow with path, glob" in result.views["model"]
    assert len(call.text("search_files", pattern="match", limit=1000)) < 40_000
    wide = call.text("search_files", pattern="match", path="wide")
    assert "match match" in wide
    assert len(wide) < 1000
    assert "first 1 files shown" in call.text("search_files", pattern="*", target="files", limit=1)


def test_output_that_was_cut_is_said(call, tmp_path: Path, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matches, "KEEP", 1000)
    for number in range(100):
        (tmp_path / f"{number:03}").write_text("match\n")
    result = call("search_files", pattern="match")
    assert 0 < len(result.data["matches"]) < 100
    assert "stopped after 1000 bytes" in result.data["note"]
    assert [row["path"] for row in result.data["matches"]] == sorted(row["path"] for row in result.data["matches"])


def test_one_endless_line_is_no_match_to_show_but_is_said(
    call, tmp_path: Path, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matches, "KEEP", 200_000)
    (tmp_path / "wide").write_text("match " * 1_000_000)
    text = call.text("search_files", pattern="match")
    assert "match match" in text if tool == "rg" else "stopped after 200000 bytes" in text


def test_a_binary_file_that_matches_is_not_said_to_have_no_match(call, tmp_path: Path, tool: str) -> None:
    (tmp_path / "a.dat").write_bytes(b"needle\0\0\n")
    result = call("search_files", pattern="needle", path="a.dat")
    assert result.data == {
        "path": "a.dat", "matches": [], "note": "binary files that match: 1; not all of their lines are shown",
    }  # fmt: skip
    assert result.views["model"].startswith("no matching line can be shown in a.dat\n[")
    assert call.text("search_files", pattern="nothing", path="a.dat") == "no matches of 'nothing' in a.dat"


def test_no_match_in_a_folder_names_what_is_not_searched(call, tmp_path: Path, tool: str) -> None:
    """A NUL in a source file, or a line of .gitignore, does not turn "not searched" into "not there"."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("out/\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.txt").write_text("hidden needle\n")
    (tmp_path / "nul.ts").write_bytes(b"needle here\0\n")
    for pattern in ("needle here", "nowhere"):
        text = call.text("search_files", pattern=pattern)
        assert text.startswith(f"no matches of {pattern!r} in . (in a folder, binary files and, with ripgrep, files that")
    assert "binary files that match: 1" in call.text("search_files", pattern="needle here", path="nul.ts")
    assert "hidden needle" in call.text("search_files", pattern="needle", path="out")
    text = call.text("search_files", pattern="b.txt", target="files")
    assert text.startswith("no files match 'b.txt' in . (with ripgrep, files that .gitignore lists")
    (tmp_path / "latin.txt").write_bytes("caf\u00e9\n".encode("latin-1"))
    assert "other encodings than UTF-8" in call.text("search_files", pattern="caf\u00e9", path="latin.txt")
    assert "encodings" not in call.text("search_files", pattern="tea", path="latin.txt")


def test_matches_in_a_folder_come_with_the_number_of_files_that_were_skipped(call, tmp_path: Path, tool: str) -> None:
    for name, text in (("a.txt", b"needle\n"), ("b.ts", b"needle here\0\n"), ("c.ts", b"\0"), ("empty", b""), ("d.py", b"\0")):
        (tmp_path / name).write_bytes(text)
    (tmp_path / "u16.txt").write_text("a needle\n", encoding="utf-16" if tool == "rg" else "utf-8")
    result = call("search_files", pattern="needle")
    assert [row["path"] for row in result.data["matches"]] == ["a.txt", "u16.txt"]
    assert result.data["note"] == "binary files not searched to the end: 3; to search one, give it as path"
    assert "to the end: 2;" in call("search_files", pattern="needle", glob="*.ts").data["note"]
    assert "note" not in call("search_files", pattern="needle", glob="*.txt").data


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("[id].tsx", ["[id].tsx", "d.tsx"]),
        ("{rule}*.md", ["rules.md", "{rule} one.md"]),
        ("\\{rule\\}*.md", ["{rule} one.md"]),
        ("app/[id]/*.tsx", ["app/[id]/page.tsx", "app/d/page.tsx"]),
        ("[id].{tsx,md}", ["[id].tsx", "d.tsx"]),
    ],
)
def test_brackets_and_braces_in_names_are_found(call, tmp_path: Path, tool: str, glob: str, names: list[str]) -> None:
    for name in ("[id].tsx", "d.tsx", "x.tsx", "{rule} one.md", "rules.md", "app/[id]/page.tsx", "app/d/page.tsx"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("word\n")
    by_glob = {name for name, _, _ in found(call("search_files", pattern="word", glob=glob))}
    by_name = call("search_files", pattern=glob, target="files").data["files"]
    assert (by_glob, by_name) == ({*names}, names)
    both = call("search_files", pattern="*", glob=glob, target="files").data["files"]
    assert both == names


def test_a_search_without_a_whole_match_does_not_say_that_there_is_none(
    call, tmp_path: Path, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matches, "KEEP", 8)
    (tmp_path / "wide").write_text("match " * 1_000)
    assert call.text("search_files", pattern="match").startswith("no matching line can be shown in .\n[stopped after 8 bytes")


def test_the_rest_of_a_long_line_can_be_read(call, tmp_path: Path, tool: str) -> None:
    """The number of omitted characters is correct for the file, or not given."""
    (tmp_path / "min.js").write_text("one\nmatch" + "x" * 9_000 + "match\n")
    (row,) = call("search_files", pattern="match", path="min.js").data["matches"]
    assert row["text"].removeprefix("match" + "x" * 495) in ("... [more characters]", "... [8510 more characters]")
    note = call("search_files", pattern="match").data["note"]
    assert note == "longer lines are cut: read the rest of one with read_file, offset=LINE and column=501"
    assert call("read_file", path="min.js", offset=2, column=501).data["content"] == "x" * 8_505 + "match"


def test_a_bad_glob_names_the_fix(call, tree: Path) -> None:
    if shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed")
    with pytest.raises(InvalidArguments, match="glob: "):
        call("search_files", pattern="x", glob="src/{a")


@pytest.mark.parametrize("pattern", ["(", "a[", "(?P<x"])
def test_a_bad_pattern_names_the_fix(call, tree: Path, tool: str, pattern: str) -> None:
    with pytest.raises(InvalidArguments, match="pattern: not a valid regular expression"):
        call("search_files", pattern=pattern)


def test_names_and_patterns_with_odd_characters_are_only_data(call, tmp_path: Path, tool: str) -> None:
    names = ["a b", "new\nline", "$(touch pwned)", "'; touch pwned; '", "-e", "*", "--files", "ü"]
    for name in names:
        (tmp_path / name).write_text("hit 'quoted' $(touch pwned) `touch pwned`\n")
    assert sorted(path for path, _, _ in found(call("search_files", pattern=r"'quoted' \$\(touch"))) == sorted(names)
    assert sorted(call("search_files", pattern="*", target="files").data["files"]) == sorted(names)
    for name in names:
        assert [path for path, _, _ in found(call("search_files", pattern="hit", path=name))] == [name]
    assert "'new\\nline'" in call.text("search_files", pattern="hit")
    for pattern in ("--help", "-e x", "; touch pwned", "$(touch pwned2)", "\u2028"):
        call("search_files", pattern=pattern.replace("(", r"\(").replace(")", r"\)").replace("$", r"\$"))
    call("search_files", pattern="hit", glob="; touch pwned")
    assert not (tmp_path / "pwned").exists()


def test_paths_that_are_not_there(call, tree: Path) -> None:
    with pytest.raises(NotFound, match="did you mean"):
        call("search_files", pattern="x", path="sr")
    os.mkfifo(tree / "pipe")
    with pytest.raises(ExecutionFailed, match="search a file or folder"):
        call("search_files", pattern="x", path="pipe")
    with pytest.raises(InvalidArguments, match="NUL"):
        call("search_files", pattern="a\0b")


def test_gitignore_is_respected(call, tree: Path) -> None:
    if shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed")
    (tree / ".gitignore").write_text("b.py\n")
    assert [path for path, _, _ in found(call("search_files", pattern="TODO", glob="*.py"))] == ["a.py"]
    assert call("search_files", pattern="*.py", target="files").data["files"] == ["a.py"]


def test_the_shell_of_the_session_has_no_say(call, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that the session put on its PATH is not used for the search."""
    (tree / "evil").mkdir()
    for name in ("rg", "grep", "find", "sh", "env"):
        (tree / "evil" / name).write_text(f"#!/bin/sh\ntouch {tree}/pwned\n")
        (tree / "evil" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tree}/evil", prepend=":")
    assert found(call("search_files", pattern="TODO one"))
    assert not (tree / "pwned").exists()


def test_without_any_search_tool_it_says_so(call, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matches, "_START", [part.replace(matches._PATH, str(tree / "none")) for part in matches._START])
    with pytest.raises((ExecutionFailed, InvalidArguments), match="not found"):
        call("search_files", pattern="x")


def test_a_grep_that_is_too_plain_is_said(call, tree: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("plain")
    (folder / "grep").write_text("#!/bin/sh\necho 'grep: unrecognized option: no-group-separator' >&2; exit 2\n")
    (folder / "grep").chmod(0o755)
    monkeypatch.setattr(matches, "_START", [part.replace(matches._PATH, str(folder)) for part in matches._START])
    with pytest.raises(ExecutionFailed, match="install ripgrep"):
        call("search_files", pattern="x")


def test_a_search_that_takes_too_long_is_ended(call, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matches, "SECONDS", 0.2)
    monkeypatch.setattr(matches, "_SCRIPT", "sleep 60")
    assert "stopped at the time limit" in call("search_files", pattern="x").data["note"]
    spilled = call.scope.spill_dir / "f"
    spilled.write_text("x")
    assert "stopped at the time limit" in call("search_files", pattern="x", path=str(spilled)).data["note"]


def test_spilled_results_are_searched_on_this_machine(call, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spilled = call.scope.spill_dir / "out.txt"
    spilled.write_text("a\nneedle\n")
    monkeypatch.setattr(call.scope, "open_environment", lambda: pytest.fail("the environment was asked"))
    assert found(call("search_files", pattern="needle", path=str(spilled))) == [(str(spilled), 2, "needle")]
