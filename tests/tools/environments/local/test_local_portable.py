"""The state of a local shell that another process continues with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from toolcrib import Environment, ExecOutcome, Portable


def test_what_a_shell_inherited_is_no_export_of_its_own(
    env: Environment, run: Callable[..., ExecOutcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process may have removed or changed the variable since the shell began."""
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("LC_MONETARY", "C")
    run("export SHARED=x")
    monkeypatch.delenv("LC_TIME")
    monkeypatch.setenv("LC_MONETARY", "C.UTF-8")
    assert isinstance(env, Portable)
    assert asyncio.run(env.portable_state()).variables == {"SHARED": "x"}
