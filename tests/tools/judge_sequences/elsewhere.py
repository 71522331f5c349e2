"""A container and another host for sequences of tool calls: throw-away homes, and the configuration that opens them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_LIMIT = 30.0


class Home:
    """A home that a sequence may ruin, copied for each sequence from a template that was made once.

    ``server`` is the ssh server whose throw-away account owns it; None: it is ours, for containers.
    """

    def __init__(self, path: Path, server: Any, script: str) -> None:
        self.path, self._server = path, server
        self.account: str | None = None if server is None else server.user
        path.mkdir(exist_ok=True)
        folders = {"HOME": str(path), "PUBLIC": str(path / "public"), "WWW": str(path / "www")}
        env = {**os.environ, **folders, "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["bash", "-c", script], check=True, env=env, user=self.account, cwd=path, capture_output=True)
        self._template = Path(tempfile.mkdtemp(prefix="home-", dir=path.parent))
        self._copy(path, self._template)

    @staticmethod
    def _copy(source: Path, target: Path) -> None:
        subprocess.run(["cp", "-a", f"{source}/.", str(target)], check=True)

    def renew(self) -> None:
        """End processes that a sequence left running there, and copy the home again."""
        self.empty()
        self._copy(self._template, self.path)

    def empty(self) -> None:
        """End processes that still run there, and delete the home's contents."""
        self._end_processes()
        for entry in self.path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def _end_processes(self) -> None:
        """End the processes of the account, which exists only for these tests; a container ends its own."""
        give_up = time.monotonic() + _LIMIT
        while self._server is not None and (left := self._server.pids()):
            assert time.monotonic() < give_up, f"processes of {self.account} do not end: {left}"
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def places(self, names: Mapping[str, str]) -> dict[str, str]:
        """Return this home's folders by the names that rows use."""
        own = {"{home}": "", "{project}": "/project", "{victim}": "/photos", "{public}": "/public", "{www}": "/www"}
        return {**names, **{name: f"{self.path}{below}" for name, below in own.items()}}


def place(make: Callable[..., Any], backend: str, home: Home, options: Mapping[str, Any], config: Callable[[str], Path]) -> Any:
    """Return the Place (``make``) of a backend that is opened with ``options``, configured as a user would configure it."""
    from tools.environments import open_environment

    options, wanted = dict(options), {"backend": backend}
    project = home.path / "project"
    if backend == "docker":
        options["mounts"] = [*options["mounts"], f"{home.path}:{home.path}:rw"]
        options["env"] = {"HOME": str(home.path)}
        wanted["cwd"] = str(project)
    else:
        options["cwd"] = str(project)
    config(json.dumps({"environments": {backend: options}}))

    def opened(folder: str) -> Any:
        return open_environment(backend, **{**options, "cwd": folder})

    return make(home.path, project, opened, wanted, home.account)
