"""The judge's knowledge of the running code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

import tools.installed
from tools.installed import installed
from tools.judge.folders import under

ROOT = Path(tools.installed.__file__).resolve().parents[1]


def is_closed(path: str | Path, *, develop: bool = False) -> bool:
    return any(under(str(path), one) for one in installed(develop=develop).closed)


def test_its_packages_and_the_interpreters_are_closed() -> None:
    for path in (
        ROOT / "tools" / "judge" / "assess.py",
        ROOT / "agent",
        ROOT / "toolcrib" / "__init__.py",
        ROOT / "model_tools.py",
    ):
        assert is_closed(path), path
    assert is_closed(os.__file__)
    assert is_closed(Path(pytest.__file__).parent / "x.py")
    assert is_closed(Path(sys.executable).with_name("toolcrib"))
    assert is_closed(Path(sys.executable).with_name(Path(sys.executable).name))


def test_a_project_beside_them_is_not(tmp_path: Path) -> None:
    assert not is_closed(tmp_path / "agent" / "run.py")
    assert not is_closed(tmp_path / ".venv" / "lib")
    assert not is_closed(Path.home() / "x")


@pytest.mark.parametrize(
    ("variable", "value", "folder"),
    [
        ("XDG_DATA_HOME", "data", "data/uv/tools"),
        ("UV_TOOL_DIR", "uv", "uv"),
        ("PIPX_HOME", "pipx", "pipx/venvs"),
    ],
)
def test_folders_of_uv_and_pipx_are_closed_where_there_are_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, folder: str
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / value))
    tool = tmp_path / folder / "ruff" / "x.py"
    assert not is_closed(tool)
    (tmp_path / folder).mkdir(parents=True)
    assert is_closed(tool)


def test_a_copy_in_site_packages_is_no_checkout(tmp_path: Path) -> None:
    """A release is in site-packages; a checkout is in any folder that the user chose, and the user may open it to commands."""
    venv.create(tmp_path / "v", with_pip=False, symlinks=True)
    site = next((tmp_path / "v" / "lib").glob("python*/site-packages"))
    (site / "x.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")  # the other packages that it needs
    for name in ("tools", "toolcrib"):
        shutil.copytree(ROOT / name, site / name, ignore=shutil.ignore_patterns("__pycache__"))
    code = """if True:
        from tools.installed import installed
        print(installed().checkout or "none", installed(develop=True).closed == installed().closed)
    """
    command = [tmp_path / "v" / "bin" / "python", "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout == "none True\n", done.stderr


def test_the_session_of_tmux_that_it_runs_in_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX", f"{tmp_path}/no-server,1,0")
    monkeypatch.setenv("TMUX_PANE", "%0")
    assert installed().sessions == ("*",)
    monkeypatch.delenv("TMUX")
    assert installed().sessions == ()
    monkeypatch.setenv("STY", "4711.work")
    assert installed().sessions == ("4711.work", "work")
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    socket = tmp_path / "s"
    subprocess.run(["tmux", "-f", "/dev/null", "-S", socket, "new", "-d", "-s", "main", "-n", "edit", "sleep 100"], check=True)
    try:
        monkeypatch.delenv("STY")
        monkeypatch.setenv("TMUX", f"{socket},1,0")
        assert installed().sessions == ("main", "edit")
    finally:
        asked = ["tmux", "-S", socket, "list-panes", "-a", "-F", "#{pid} #{pane_pid}"]
        pids = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()
        subprocess.run(["tmux", "-S", socket, "kill-server"], check=True)
        while any(Path("/proc", pid).exists() for pid in pids):  # kill-server returns before they have ended
            time.sleep(0.01)
