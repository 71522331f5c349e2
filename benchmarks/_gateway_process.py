"""A gateway in its own process, run as by an operator, and other processes."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.core import clean_environment

_ROOT = Path(__file__).parents[1]
_RUN = "import sys; from agent.cli import main; sys.exit(main(sys.argv[1:]))"


@contextlib.contextmanager
def child(argv: Sequence[str], folder: Path, env: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process until the end of the block; its output goes to ``log``."""
    with (
        log.open("wb") as out,
        subprocess.Popen(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


def settings_for(folder: Path, model: str, name: str, platform: Mapping[str, Any]) -> dict[str, str]:
    """Write the configuration of a gateway into its folder, and return the environment that makes toolcrib use it. ``platform``
    is the content of platforms.NAME, ``model`` the address of a model server.
    """
    config = {
        "model": {"provider": "chat", "base_url": model, "name": "bench"},
        "plugins": {"enabled": [name]},
        "platforms": {name: platform},
        "sandbox": {"mode": "none"},  # its calls ask about effects that an undo could revert
        "snapshots": {"enabled": False},
    }
    (folder / "config.yaml").write_text(json.dumps(config))  # JSON is YAML too
    own = {"TOOLCRIB_CONFIG": str(folder / "config.yaml"), "TOOLCRIB_STATE": str(folder / "state"), "PYTHONPATH": str(_ROOT)}
    return clean_environment(folder) | own


@contextlib.contextmanager
def gateway_of(
    folder: Path, model: str, name: str, platform: Mapping[str, Any], secrets: Mapping[str, str], before: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `toolcrib gateway run NAME` in a folder; its log is gateway.log there. ``before`` is Python that the process runs
    first; for the other parameters see ``settings_for``.
    """
    env = settings_for(folder, model, name, platform) | dict(secrets)
    argv = [sys.executable, "-c", f"{before}\n{_RUN}", "gateway", "run", name]
    with child(argv, folder, env, folder / "gateway.log") as process:
        yield process
