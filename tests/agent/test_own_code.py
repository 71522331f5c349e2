"""A session can't change the code that judges it, unless a person started it to work on that code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.api import Crib, assemble
from agent.config import load_config
from toolcrib import ToolResult
from tools.dispatch.bridge import close_loop


@pytest.fixture
def crib(tmp_path: Path) -> Iterator[Crib]:
    with assemble(project_dir=tmp_path) as made:
        yield made
    close_loop()


def result(crib: Crib, name: str, args: dict[str, str]) -> ToolResult:
    session = crib.open_session(platform="api")
    try:
        return session.call(name, args).result
    finally:
        session.close_sync()


@pytest.mark.parametrize("folder", ["tools/judge/rules", "agent", "toolcrib"])
def test_its_own_packages_are_refused(crib: Crib, root: Path, folder: str) -> None:
    file = root / folder / "zz.py"
    for done in (
        result(crib, "write_file", {"path": str(file), "content": "x"}),
        result(crib, "terminal", {"command": f"echo x > {file}"}),
        result(crib, "terminal", {"command": f"python3 -c \"open('{file}', 'w')\""}),
    ):
        assert done.failure is not None
        assert done.failure.kind == "Denied"
        assert "toolcrib" in str(done.message)
    assert not file.exists()


def test_they_can_be_read(crib: Crib, root: Path) -> None:
    assert result(crib, "read_file", {"path": str(root / "tools/judge/assess.py")}).is_success


def test_a_person_may_start_it_to_work_on_them(tmp_path: Path, root: Path) -> None:
    config = load_config(project_dir=tmp_path)
    with assemble(project_dir=tmp_path) as made:
        assert str(root / "agent") in made.default.setting.installed.closed
    config = replace(config, approval=replace(config.approval, develop_toolcrib=True))
    with assemble(config=config, project_dir=tmp_path) as made:
        assert str(root / "agent") not in made.default.setting.installed.closed
        assert made.default.setting.installed.closed
    close_loop()


def test_a_project_does_not_choose_it(tmp_path: Path, root: Path) -> None:
    (tmp_path / ".toolcrib").mkdir()
    (tmp_path / ".toolcrib" / "config.yaml").write_text("approval: {develop_toolcrib: true}\n")
    with assemble(project_dir=tmp_path) as made:
        assert str(root / "agent") in made.default.setting.installed.closed
    close_loop()
