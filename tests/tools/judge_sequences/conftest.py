"""Rows, sandboxes, a container and another host, for the tests of sequences."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _beside(name: str) -> ModuleType:
    """Import a module of this folder, which is not a package."""
    spec = importlib.util.spec_from_file_location(f"judge_sequences_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses need this entry
    spec.loader.exec_module(module)
    return module


_rows, _sandbox, _world, _driver, _elsewhere = map(_beside, ("rows", "sandbox", "world", "driver", "elsewhere"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise the tests with ``hostile`` or ``ordinary`` by rows; `known.txt` names rows that do not hold today.

    A row is proven again if `proven.txt` does not name its present form, and so is a share of the other rows. Ordinary rows with
    a ``check`` and rows in the product's own sandbox (`known.workspace.txt`) run in shares too; `run.py` runs them all.
    """
    mode = "workspace" if "contained" in metafunc.fixturenames else "judge"
    if "attack" in metafunc.fixturenames:
        absent = pytest.param({}, id="absent", marks=pytest.mark.skip(reason="TOOLCRIB_CORPORA is not set, or has no attacks"))
        params = [pytest.param(row, id=name) for name, row in _rows.to_run("attacks", mode).items()]
        metafunc.parametrize("attack", params or [absent])
    for kind in _rows.KINDS:
        if "proof" in metafunc.fixturenames and kind == "hostile":
            metafunc.parametrize(kind, [pytest.param(row, id=name) for name, row in _rows.to_prove().items()])
        elif kind in metafunc.fixturenames:
            file = _rows.known_file(mode).name
            marks = pytest.mark.xfail(reason=file, strict=True)
            known, chosen = _rows.known(mode), _rows.to_run(kind, mode)
            params = [pytest.param(row, id=name, marks=marks if name in known else ()) for name, row in chosen.items()]
            metafunc.parametrize(kind, params)
        if (asked := f"{kind}_elsewhere") in metafunc.fixturenames:
            params = []
            for name, row in _rows.elsewhere(kind).items():
                backend = name.partition(":")[0]
                holds = metafunc.function.__name__.endswith("no_judge_is") or name not in _rows.known()
                fails = [] if holds else [pytest.mark.xfail(reason="known.txt", strict=True)]
                params.append(pytest.param((backend, row), id=name, marks=[pytest.mark.xdist_group(backend), *fails]))
            metafunc.parametrize(asked, params)


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A sandbox for all sequences of this process."""
    if why := _sandbox.missing():
        pytest.skip(f"no sandbox can be made here: {why}")
    with _sandbox.open_sandbox(tmp_path_factory.mktemp("sequences") / "sandbox") as opened:
        yield opened


@pytest.fixture(scope="session")
def contained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A sandbox like ``sandbox``, whose sessions are contained and take snapshots."""
    if why := _sandbox.missing() or _sandbox.missing_nested():
        pytest.skip(f"no sandbox can be made here: {why}")
    if why := _sandbox.refused("workspace"):
        pytest.skip(f"the configuration refuses the settings of the mode workspace: {why}")
    with _sandbox.open_sandbox(tmp_path_factory.mktemp("contained") / "sandbox", "workspace") as opened:
        yield opened


@pytest.fixture
def proof(hostile: dict[str, Any], sandbox: Any) -> Any:
    """The sandbox, if it can show the row's harm on this machine."""
    if why := hostile.get("unproven"):
        pytest.skip(f"unproven: {why}")
    if program := _sandbox.lacking(hostile):
        pytest.skip(f"{program} is not installed")
    return sandbox


@pytest.fixture
def lacking() -> Callable[[dict[str, Any]], str]:
    """Return a function that returns the missing program of a row, or ""."""
    function: Callable[[dict[str, Any]], str] = _sandbox.lacking
    return function


@pytest.fixture
def rows() -> ModuleType:
    """The module that reads the rows."""
    return _rows


@pytest.fixture(scope="session")
def docker_home(engine: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A home that is mounted into each container under the same path."""
    return _elsewhere.Home(tmp_path_factory.mktemp("docker") / "dev", None, _world.WORLD)


@pytest.fixture(scope="session")
def ssh_home(sshd: Any) -> Any:
    """The home of the account on the other host, which shares a file system with this one."""
    return _elsewhere.Home(sshd.folder / "home", sshd, _world.WORLD)


@pytest.fixture
def run_elsewhere(request: pytest.FixtureRequest, config: Callable[[str], Path]) -> Iterator[Callable[..., Any]]:
    """Return a function that runs a row in the backend of that name, in a home prepared for it."""
    homes = []

    def run(backend: str, row: dict[str, Any], *, judged: bool) -> Any:
        home = request.getfixturevalue(f"{backend}_home")
        homes.append(home)
        home.renew()
        options = request.getfixturevalue("engine" if backend == "docker" else "sshd").options
        place = _elsewhere.place(_driver.Place, backend, home, options, config)
        return _driver.run_sequence(_rows.placed(row, home.places(_rows.PLACES)), place, judged=judged)

    yield run
    for home in homes:
        home.empty()
