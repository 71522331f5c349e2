"""Hard links to toolcrib's own files in a project: on this machine no backend's session changes or reads a file through them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.config import state_dir
from agent.context.instructions import read_instructions
from tools.environments.own_files import OwnFiles

BACKENDS = [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in ("local", "bubblewrap", "docker")]


@pytest.fixture(params=BACKENDS)
def opened(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A session in ``project``, with the configuration in ``settings`` and a uv tool in ``uv``."""
    text = f"terminal: {{backend: {request.param}}}\n"
    if request.param == "docker":
        given = request.getfixturevalue("engine").options
        text += f"environments: {{docker: {{image: {given['image']}, host: '{given['host']}', mounts: ['/usr:/usr:ro']}}}}"
    for folder in ("project/src", "settings/plugins/mine", "uv/toolcrib/lib"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "settings" / "config.yaml").write_text(text)
    (tmp_path / "settings" / "plugins" / "mine" / "__init__.py").write_text("x = 1\n")
    (tmp_path / "uv" / "toolcrib" / "lib" / "code.py").write_text("x = 1\n")
    monkeypatch.setenv("UV_TOOL_DIR", str(tmp_path / "uv"))
    with assemble(config_file=tmp_path / "settings" / "config.yaml", project_dir=tmp_path / "project") as crib:
        session = crib.open_session(cwd=str(tmp_path / "project"))
        yield session
        session.close_sync()


def said(session: Any, tool: str, **args: Any) -> str:
    """Return "" if the call ran, else the reason."""
    failure = session.call(tool, args).result.failure
    return "" if failure is None else str(failure.text)


def test_own_files_are_closed_by_every_name(opened: Any, tmp_path: Path) -> None:
    """003-24"""
    project = tmp_path / "project"
    state = state_dir() / "memory" / "1" / "MEMORY.markdown"
    state.parent.mkdir(parents=True)
    state.write_text("note\n")
    owns = {
        "settings": tmp_path / "settings" / "config.yaml",
        "plugin": tmp_path / "settings" / "plugins" / "mine" / "__init__.py",
        "code": tmp_path / "uv" / "toolcrib" / "lib" / "code.py",
        "memory": state,
    }
    for kind, own in owns.items():
        before = own.read_text()
        (project / "src" / kind).hardlink_to(own)
        (project / f"{kind}.link").symlink_to(f"src/{kind}")
        for name in (f"src/{kind}", f"{kind}.link"):
            assert "Denied, regardless of grants" in said(opened, "write_file", path=name, content="x"), name
            assert "Denied, regardless of grants" in said(opened, "patch", path=name, old=before, new="y"), name
            assert "Denied, regardless of grants" in said(opened, "terminal", command=f"echo x > {name}"), name
        if kind == "memory":
            assert "Denied, regardless of grants" in said(opened, "read_file", path=f"src/{kind}")
            assert "Denied, regardless of grants" in said(opened, "terminal", command=f"cat src/{kind}")
        assert own.read_text() == before


def test_the_projects_own_files_may_have_several_names(opened: Any, tmp_path: Path) -> None:
    one, two = tmp_path / "project" / "one.py", tmp_path / "project" / "src" / "two.py"
    one.write_text("x = 1\n")
    two.hardlink_to(one)
    assert said(opened, "read_file", path="src/two.py") == ""
    assert said(opened, "write_file", path="src/two.py", content="x = 2\n") == ""
    assert said(opened, "patch", path="one.py", old="x = 2", new="x = 3") == ""
    assert said(opened, "terminal", command="cat one.py && echo '#' >> src/two.py") == ""
    assert one.read_text() == "x = 3\n#\n"


@pytest.mark.parametrize("opened", [pytest.param("local")], indirect=True)
def test_a_search_leaves_own_files_out(opened: Any, tmp_path: Path) -> None:
    (tmp_path / "project" / "own.txt").hardlink_to(tmp_path / "settings" / "config.yaml")
    (tmp_path / "project" / "mine.txt").write_text("backend: mine\n")
    (tmp_path / "project" / "two.txt").hardlink_to(tmp_path / "project" / "mine.txt")
    result = opened.call("search_files", {"pattern": "backend"}).result
    assert [row["path"] for row in result.data["matches"]] == ["mine.txt", "two.txt"]
    assert "1 files or folders could not be read" in result.data["note"]


def test_instructions_are_not_read_from_an_own_file(tmp_path: Path) -> None:
    project, own = tmp_path / "project", tmp_path / "state" / "MEMORY.markdown"
    (project / "a").mkdir(parents=True)
    own.parent.mkdir()
    own.write_text("a note of another person\n")
    (project / "AGENTS.md").hardlink_to(own)
    (project / "a" / "AGENTS.md").write_text("Use tabs.\n")
    os.link(project / "a" / "AGENTS.md", project / "CLAUDE.md")
    files = read_instructions(project / "a", project, own=OwnFiles([str(own.parent)]))
    assert [(file.path, file.text) for file in files] == [("AGENTS.md", ""), ("a/AGENTS.md", "Use tabs.")]
    assert files[0].fault == "not read: a hard link to one of toolcrib's own files"
