"""Files named in a message: which words are mentions, which files look like secrets, and which names are offered."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.cli.attaching import _SECRET, attach, mentions
from agent.cli.filenames import FileNames
from tools.dispatch.bridge import run_async
from tools.environments.local.holding import sandbox_here

HELD = sandbox_here("workspace")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see @a.py", [["a.py"]]),
        ("@a.py, then (@b/c.md) and '@d'.", [["a.py,", "a.py"], ["b/c.md)", "b/c.md"], ["d'.", "d"]]),
        (r'@"two words.txt" @two\ words.txt', [["two words.txt"], ["two words.txt"]]),
        ("mail me@x.org or a@b, not @ alone", []),
        ("@~/notes @../up @/etc/hosts", [["~/notes"], ["../up"], ["/etc/hosts"]]),
        ("a@b @@c", []),
    ],
)
def test_mentions(text: str, found: list[list[str]]) -> None:
    assert list(mentions(text)) == found


def test_a_file_that_is_not_there_is_told_where_the_word_looks_like_one(tmp_path: Path) -> None:
    (tmp_path / "calc.py").write_text("1\n")
    text = "@clc.py why? @calc.py @src/gone @property @dataclasses.dataclass, me@x.org"
    with assemble(project_dir=tmp_path) as crib:
        session = crib.open_session(cwd=str(tmp_path))
        done = run_async(attach(session, text, None))
        session.close_sync()
    assert done.notes == [
        "@clc.py stays text: no such file",
        "attached calc.py: 1 line",
        "@src/gone stays text: no such file",
    ]


@pytest.mark.xdist_group("bubblewrap")
@pytest.mark.skipif(HELD.mode != "workspace", reason=f"no sandbox can be made here: {HELD.why_not_more}")
def test_the_sandbox_hides_no_file_that_the_person_names(config: Any, tmp_path: Path) -> None:
    config("sandbox: {mode: workspace, network: none}\n")
    key = Path.home() / ".ssh" / "id_test"
    key.parent.mkdir(mode=0o700)
    key.write_text("no key\n")
    project = tmp_path / "project"
    project.mkdir()
    asked: list[str] = []

    async def agree(question: str) -> bool:
        asked.append(question)
        return True

    with tempfile.NamedTemporaryFile("w", suffix=".md") as file, assemble(project_dir=project) as crib:
        file.write("in /tmp\n")
        file.flush()
        session = crib.open_session(cwd=str(project))
        done = run_async(attach(session, f"@{file.name} and @{key}", agree))
        session.close_sync()
    assert [part.text for part in done.parts] == ["in /tmp\n", "no key\n"], done
    assert [str(key) in question for question in asked] == [True]


def test_keepers_of_secrets_are_known_by_name() -> None:
    secret = (
        ".env",
        "a/.env.local",
        "/h/.ssh/id_ed25519",
        "x.pem",
        "/h/.aws/credentials",
        "/h/.kube/config",
        "secrets.yaml",
        "/h/.ssh/x",
    )
    plain = (".env.example", "env.py", "key.py", "src/secrets.py", "config", "id_rsa.pub", "tokens.md", "/h/.ssh/config")
    assert [path for path in secret if not _SECRET.search(f"/{path}")] == []
    assert [path for path in plain if _SECRET.search(f"/{path}")] == []


def test_names_that_git_ignores_are_left_out_unless_one_goes_there(tmp_path: Path) -> None:
    for name in ("src/deep/keyboard.py", "src/x.o", "build/out.js", ".hidden"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    files = FileNames(lambda: str(tmp_path))
    assert files.matching("") == ["build/", "src/"], "without git all but hidden ones"
    assert files.matching("keyb") == []
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("build/\n*.o\n")
    files = FileNames(lambda: str(tmp_path))
    assert files.matching("") == ["src/"]
    assert files.matching(".") == [".gitignore", ".hidden"]
    assert files.matching("src/") == ["src/deep/"]
    assert files.matching("KEYB") == ["src/deep/keyboard.py"]
    assert files.matching("build/") == ["build/out.js"]
    assert files.matching(f"{tmp_path}/s") == [f"{tmp_path}/src/"]
    assert files.matching("none/") == []
    assert FileNames(lambda: "").matching("") == []


def test_a_repository_runs_nothing(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    (tmp_path / "a.py").write_text("x")
    program = tmp_path / "run.sh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    subprocess.run(["git", "config", "core.fsmonitor", str(program)], cwd=tmp_path, check=True)
    assert "a.py" in FileNames(lambda: str(tmp_path)).matching("a")
    assert not os.path.lexists(tmp_path / "ran")
