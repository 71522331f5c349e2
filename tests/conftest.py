"""What every test gets: a world of its own, and a look at the end for what was left behind."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# No database: a run leaves no file behind. No deadline: no test here measures time.
settings.register_profile("toolcrib", database=None, deadline=None, derandomize="CI" in os.environ)
settings.load_profile("toolcrib")

_KEPT = {"TOOLCRIB_CORPORA"}
_SECRET_ENDINGS = ("_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD")


@pytest.fixture(scope="session", autouse=True)
def _leaves_nothing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Temporary files go to a folder of this run, which must be empty at its end; so must the list of our processes.

    What `toolcrib call` keeps, since it told a path in it, goes with the folder.
    """
    base = tmp_path_factory.getbasetemp()
    folder = base / "tmp"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", None)
        yield
        left = sorted(path.name for path in folder.iterdir() if path.name.startswith("toolcrib") and "-kept-" not in path.name)
        running = sorted(_processes_of(base))
    assert not left, f"temporary folders left behind: {left}"
    assert not running, f"processes left behind: {running}"


def _processes_of(base: Path) -> Iterator[str]:
    """Living children of this process, and whatever else works in this run's folders or has them in its environment."""
    mark = os.fsencode(str(base) + os.sep)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            traces = (process / "environ").read_bytes() + os.fsencode((process / "cwd").readlink()) + b"/"
        except OSError:
            continue
        if state != "Z" and int(process.name) != os.getpid() and (int(parent) == os.getpid() or mark in traces):
            yield f"{process.name}: {command}"


@pytest.fixture(autouse=True)
def _own_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A home of its own, so that no test reads or writes the person's files or keys."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if (name.startswith("TOOLCRIB_") and name not in _KEPT) or name.endswith(_SECRET_ENDINGS):
                patch.delenv(name)
        pip_cache = Path.home() / ".cache" / "pip"
        if pip_cache.is_dir():
            patch.setenv("PIP_CACHE_DIR", os.environ.get("PIP_CACHE_DIR", str(pip_cache)))
        patch.setenv("HOME", str(home))
        for name, folder in (
            ("XDG_CONFIG_HOME", ".config"),
            ("XDG_STATE_HOME", ".local/state"),
            ("XDG_DATA_HOME", ".local/share"),
            ("XDG_CACHE_HOME", ".cache"),
        ):
            patch.setenv(name, str(home / folder))
        yield
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of recorded cases (approval, text, wire)."""
    named = os.environ.get("TOOLCRIB_CORPORA", "")
    if not named or not Path(named).is_dir():
        pytest.skip("set TOOLCRIB_CORPORA to the folder of recorded cases")
    return Path(named)


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def python() -> str:
    """The interpreter that runs the tests, for those that start a fresh one."""
    return sys.executable
