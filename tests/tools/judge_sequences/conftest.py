"""Rows and sandboxes for the tests of sequences."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _beside(name: str) -> ModuleType:
    """Import a module of this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(f"judge_sequences_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_rows, _sandbox = _beside("rows"), _beside("sandbox")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each row to the tests that ask for ``hostile`` or ``ordinary``; `known.txt` names those that don't hold today."""
    for kind in _rows.KINDS:
        if kind in metafunc.fixturenames:
            marks = pytest.mark.xfail(reason="known.txt", strict=True) if "proof" not in metafunc.fixturenames else ()
            known = _rows.known()
            params = [pytest.param(row, id=name, marks=marks if name in known else ()) for name, row in _rows.rows(kind).items()]
            metafunc.parametrize(kind, params)


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A sandbox for all sequences of this process."""
    if why := _sandbox.missing():
        pytest.skip(f"no sandbox can be made here: {why}")
    with _sandbox.open_sandbox(tmp_path_factory.mktemp("sequences") / "sandbox") as opened:
        yield opened


@pytest.fixture
def proof(hostile: dict[str, Any], sandbox: Any) -> Any:
    """The sandbox, where the row's harm can be shown on this machine."""
    if why := hostile.get("unproven"):
        pytest.skip(f"unproven: {why}")
    if program := _sandbox.lacking(hostile):
        pytest.skip(f"{program} is not installed")
    return sandbox


@pytest.fixture
def rows() -> ModuleType:
    """The module that reads the rows."""
    return _rows
