"""Watchdog process that removes this process's containers, or ends its processes in kept ones, when this process is killed.

If the watchdog is killed too, or the engine does not answer, the next start of toolcrib does it: see link.py and remote/left.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from tools.environments.remote import left

if TYPE_CHECKING:
    import docker

_PATIENCE = 60.0
"""Seconds of retries if the engine does not answer when this process is killed."""
_PASSED = ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "HOME", "PATH")
# The child lives as long as this process, so it imports modules only when needed.
_CHILD = """import sys
path, known = sys.stdin.readline()[:-1], {}
for line in sys.stdin:
    id, *about = line[:-1].split("\\t")
    known[id] = about
    if not about:
        del known[id]
if known:
    sys.path[:] = path.split("\\t")
    from tools.environments.docker.watch import end
    end(known)
"""


class ContainerWatchdog:
    """A small process that waits for the end of a pipe that only this process holds open. One serves all containers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, str, str]] = {}
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0

    def enter(self, container: str, host: str, keep: str, folder: str = "") -> None:
        """Watch a container by its id. Unless ``keep`` is ``remove``, only the processes listed in ``folder`` are ended."""
        with self._lock:
            if self._owner != os.getpid():  # the first use, or a fork: the parent's watchdog is not ours
                self._owner, self._known, self._process = os.getpid(), {}, None
            self._known[container] = (host, keep, folder)
            if self._process is None or self._process.poll() is not None:
                self._start()
            self._say(container, host, keep, folder)

    def leave(self, container: str) -> None:
        with self._lock:
            if self._known.pop(container, None) is None:
                return
            self._say(container)
            if not self._known and self._process is not None and self._owner == os.getpid():
                process, self._process = self._process, None
                process.communicate()

    def _start(self) -> None:
        with contextlib.suppress(OSError):  # no more processes; using the container will report the same
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _CHILD],
                cwd="/",
                env={name: os.environ[name] for name in _PASSED if name in os.environ},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                text=True,
                errors="surrogateescape",
            )
            self._say(*sys.path)
            for container, about in self._known.items():
                self._say(container, *about)

    def _say(self, *words: str) -> None:
        if self._process is not None and self._process.stdin is not None and self._owner == os.getpid():
            with contextlib.suppress(OSError):  # the watchdog was killed; the next container starts another
                self._process.stdin.write("\t".join(words) + "\n")
                self._process.stdin.flush()


def end(known: dict[str, list[str]]) -> None:
    """Remove the containers, or end the listed processes in kept ones. The watchdog calls this when toolcrib has ended."""
    import docker
    import requests

    give_up = time.monotonic() + _PATIENCE
    while known and time.monotonic() < give_up:
        for container, (host, keep, folder) in list(known.items()):
            try:
                with contextlib.closing(docker.DockerClient(host) if host else docker.from_env()) as client:
                    _end(client, container, keep, folder)
            except docker.errors.APIError:  # the container is gone or stopped already
                del known[container]
            except (docker.errors.DockerException, requests.RequestException, OSError):
                time.sleep(1)
            else:
                del known[container]


def _end(client: docker.DockerClient, container: str, keep: str, folder: str) -> None:
    found = client.containers.get(container)
    if keep == "remove":
        found.remove(force=True, v=True)
    elif folder:
        found.exec_run(["bash", "--noprofile", "--norc", "-c", left.end(folder)])


watchdog = ContainerWatchdog()
