"""The official SDKs have their own virtual environment: toolcrib needs none of them, and they have many requirements."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WithSdk = Callable[[str, str, list[Any]], dict[str, Any]]


@pytest.fixture(scope="session")
def with_sdk(root: Path) -> WithSdk:
    """Return a function that runs _with_sdk.py: (wire, base URL, bodies) -> its output."""
    python = Path(os.environ.get("TOOLCRIB_SDK_VENV") or root / ".venv-sdk", "bin", "python")
    if not python.exists():
        pytest.skip(
            "the official SDKs are not installed: scripts/test makes .venv-sdk, or let TOOLCRIB_SDK_VENV name their place"
        )
    script = Path(__file__).with_name("_with_sdk.py")

    def run(wire: str, base_url: str, bodies: list[Any]) -> dict[str, Any]:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE", "PYTHON"))}
        command = [str(python), "-W", "ignore", str(script), wire, base_url]
        env["NO_PROXY"] = "127.0.0.1"
        done = subprocess.run(
            command, input=json.dumps(bodies), env=env, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return run
