"""The connection to a container: its engine, its creation and its removal."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from toolcrib.contract.errors import EnvironmentFailed
from tools.environments import _owner
from tools.environments.docker import kept
from tools.environments.docker.channel import DockerChannel, DockerTerminal, detach_keys
from tools.environments.docker.engine import cause, new_client, refused, unanswered
from tools.environments.docker.options import KEY, OWNER, Options
from tools.environments.docker.patience import GivenUp, Patience, Result
from tools.environments.docker.removal import removals
from tools.environments.docker.watch import watchdog
from tools.environments.remote.channel import Link

if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container

_TIMEOUT = 30
"""Seconds that the engine has to answer."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of commands if the image sets none."""
_REMOVAL = 1.0
_DIAGNOSIS = 5.0
_HALTED = 2.0
_GRACE = 0.5
_LEAVING = 2.0
"""Seconds that closing may take if the engine hangs."""
_LAST = 5.0
"""Seconds for work that starts while the environment is closing."""
_FEW = 16
"""If a container may have fewer processes than this, a shell may fail to start."""
_SOCKET = "unix:///var/run/docker.sock"
_NO_SHELL = (126, 127)
"""Exit codes of a container whose first process could not start. One with a working shell ends with other codes."""


class DockerLink(Link):
    """Link to a container. ``epoch`` grows with each start of a container. Safe to use from several threads."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.epoch = 0
        self._client: docker.DockerClient | None = None
        self._container: Container | None = None
        self._started = ""
        self._news = ""
        self._patience = Patience()
        self._leaves = False
        self._lock = threading.RLock()
        self._closed = False

    @property
    def where(self) -> str:
        container = self._container
        return f"docker:{container.name if container is not None else self.options.session[:12]}"

    # -- the container -------------------------------------------------------------------------------------------

    def _engine(self) -> docker.DockerClient:
        if self._client is None:
            if self._address.startswith("ssh:"):
                raise EnvironmentFailed("an engine behind ssh is not supported: forward its socket, or use the ssh environment")
            with self._explained("reach"):
                self._client = new_client(self.options.host, _TIMEOUT)
            with self._explained("clean up leftovers in"):
                _reap(self._client)
        return self._client

    @property
    def _address(self) -> str:
        return self.options.host or os.environ.get("DOCKER_HOST", "") or _SOCKET

    def _knock(self) -> None:
        """Raise OSError if the engine's Unix socket accepts no connection: docker-py would then leak a socket."""
        if self._address.startswith("unix://"):
            with socket.socket(socket.AF_UNIX) as knocking:
                knocking.settimeout(_TIMEOUT)
                knocking.connect(self._address.removeprefix("unix://"))

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        import docker
        import requests

        try:
            yield
        except docker.errors.ImageNotFound as error:
            image = self.options.image
            raise EnvironmentFailed(f"the image {image} is missing: run `docker pull {image}`, or set another") from error
        except docker.errors.APIError as error:
            raise refused(what, str(error.explanation or error)) from error
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise unanswered(self._address, error) from error

    def _ready(self) -> Container:
        """Return the running container. Start or create it if needed."""
        import docker

        if self._closed:
            raise EnvironmentFailed("this environment is closed: open another")
        with self._explained("reach"):
            self._knock()
        client = self._engine()
        if self._container is not None:
            with self._explained("inspect"):
                try:
                    self._container.reload()
                except docker.errors.NotFound:
                    watchdog.leave(str(self._container.id))
                    self._container = None
        if self._container is None:
            self._container = self._found(client) if self.options.keep == "reuse" else None
        if self._container is None:
            with self._explained("create"):
                self._container = self._made(client)
            self._watch()
        container = self._container
        if container.status == "paused":
            raise EnvironmentFailed(f"the container {container.name} is paused: run `docker unpause {container.name}`")
        if container.status != "running":
            with self._explained("start"):
                try:
                    container.start()
                except BaseException:
                    if self.options.keep == "remove":
                        self._let_go(container)
                        self._container = None
                    raise
                container.reload()
        started = f"{container.id} {container.attrs['State']['StartedAt']}"
        if started != self._started:
            if self.options.keep == "reuse":
                with self._explained("inspect"):
                    said = kept.started_again(container)
                self._news = self._news or ("" if self.epoch else said)  # a later start is reported through the epoch
            self.epoch += 1
            self._started = started
        return container

    def news(self) -> str:
        """Return, once, what the session must know about a reused container; "" if there is nothing."""
        said, self._news = self._news, ""  # without the lock, which a call holds while it waits for the engine
        return said

    def _made(self, client: docker.DockerClient) -> Container:
        import docker

        wanted = self.options.create()
        try:
            try:
                return client.containers.create(**wanted)
            except docker.errors.APIError as error:
                if "Range of CPUs" not in str(error.explanation):
                    raise
                return client.containers.create(**{**wanted, "nano_cpus": 0})  # the machine has fewer CPUs
        except Exception as error:
            refused = isinstance(error, docker.errors.APIError) and error.is_client_error()
            if not refused and self.options.keep == "remove":  # it may exist all the same, or may appear later
                removals.add(wanted["name"], self.options.host, may_come=True)
            raise

    def _found(self, client: docker.DockerClient) -> Container | None:
        with self._explained("find"):
            found = client.containers.list(all=True, filters={"label": [f"{KEY}={self.options.key}"]})
        return found[0] if found else None

    # -- channels ------------------------------------------------------------------------------------------------

    def open(self, argv: Sequence[str]) -> DockerChannel:
        """Start a process in the container and return its channel. Raises EnvironmentFailed; GivenUp if the wait is cancelled."""
        return self._patiently(lambda: DockerChannel(*self._started_exec(argv)[:3]))

    def open_terminal(self, argv: Sequence[str]) -> DockerTerminal:
        """As ``open``, in a terminal."""
        return self._patiently(lambda: self._terminal(argv))

    def _terminal(self, argv: Sequence[str]) -> DockerTerminal:
        sock, held, code, made = self._started_exec(argv, tty=True)
        return DockerTerminal(sock, held, code, functools.partial(self._engine().api.exec_resize, made))

    def _patiently(self, work: Callable[[], Result]) -> Result:
        try:  # closing limits each wait, even if no wait hangs at the moment
            return self._patience.wait(work, _LAST if self._leaves else None)
        except TimeoutError as error:
            raise unanswered(self._address, error) from error

    def interrupt(self) -> None:
        """Cancel all waits for the engine after a short grace: a healthy engine answers within it."""
        self._patience.give_up(_GRACE)

    def leave_soon(self) -> None:
        """Prepare to close: stop waiting for an engine that hangs."""
        self._leaves = True
        self._patience.give_up()

    @property
    def _limit(self) -> float | None:
        """Seconds that closing may wait if the engine hangs; None if it does not: the client's own limit then applies."""
        return _LEAVING if self._leaves and self._patience.hangs else None

    def _started_exec(
        self, argv: Sequence[str], *, tty: bool = False
    ) -> tuple[socket.socket, object, Callable[[], int | None], str]:
        """Start a process. Return its socket, the object that owns it, a function for its exit code, and its id."""
        with self._lock:
            container = self._ready()
            api = self._engine().api
            with self._explained("run a shell in"), self._a_shell():
                made = api.exec_create(container.id, list(argv), stdin=True, tty=tty, detach_keys=detach_keys() if tty else None)[
                    "Id"
                ]
                held = api.exec_start(made, tty=tty, socket=True)
        raw = getattr(held, "_sock", held)
        if not isinstance(raw, socket.socket):
            raise EnvironmentFailed(
                f"this connection to the engine ({type(raw).__name__}) can't carry a shell: use its socket, or tcp"
            )

        def code() -> int | None:
            try:
                self._knock()
                said = api.exec_inspect(made)
            except Exception:  # noqa: BLE001 - the engine's client may raise anything: the exit code is then unknown
                return None
            return None if said["Running"] else said["ExitCode"]

        return raw, held, code, made

    @contextlib.contextmanager
    def _a_shell(self) -> Iterator[None]:
        """Explain why no shell can start if the container has ended. Raises EnvironmentFailed."""
        import docker

        try:
            yield
        except docker.errors.APIError as error:
            if why := self.diagnose():
                raise EnvironmentFailed(
                    f"no shell could be started in {self.where} ({why}); nothing was run: {self.advice()}"
                ) from error
            raise

    def variables(self) -> Mapping[str, str]:
        """Return the variables of the image and the options. Raises EnvironmentFailed; GivenUp if the wait is cancelled."""
        return self._patiently(self._variables)

    def _variables(self) -> Mapping[str, str]:
        with self._lock:
            with self._explained("reach"):
                self._knock()
            client = self._engine()
            with self._explained("inspect the image of"):
                given = client.images.get(self.options.image).attrs["Config"].get("Env") or []
        pairs = (each.partition("=") for each in given)
        return {"PATH": _PATH, **{name: value for name, _, value in pairs}, **self.options.env}

    def leave(self, folder: str) -> None:
        self._watch(folder)

    def _watch(self, folder: str = "") -> None:
        if self._container is not None:
            watchdog.enter(str(self._container.id), self.options.host, self.options.keep, folder)

    def diagnose(self) -> str:
        try:
            return self._patience.wait(self._diagnose, _DIAGNOSIS)
        except GivenUp:
            return ""
        except TimeoutError as error:
            return f"the docker engine does not answer {cause(error)}"

    def _diagnose(self) -> str:
        import docker
        import requests

        container = self._container
        if container is None or self._client is None:
            return ""
        give_up = time.monotonic() + _REMOVAL
        try:
            while time.monotonic() < give_up:  # a container that is being removed may still seem to run
                self._knock()
                container.reload()
                time.sleep(_REMOVAL / 5)
        except docker.errors.NotFound:
            return f"the container {container.name} was removed"
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            return f"the docker engine does not answer {cause(error)}"
        state = container.attrs["State"]
        if state.get("Paused"):
            return _pause(container)
        if state.get("OOMKilled") and not state.get("Running"):
            return f"the container {container.name} ran out of memory"
        if not state.get("Running"):
            why = f": its image {self.options.image} has no working /bin/sh" if self._never_ran() else ""
            return f"the container {container.name} was stopped (exit code {state.get('ExitCode')}){why}"
        return ""

    def _never_ran(self) -> bool:
        state = {} if self._container is None else self._container.attrs["State"]
        return not state.get("Running") and state.get("ExitCode") in _NO_SHELL

    def halted(self) -> str:
        try:
            return self._patience.wait(self._paused, _HALTED)
        except GivenUp:
            return ""
        except TimeoutError as error:
            return f"the docker engine does not answer {cause(error)}"

    def _paused(self) -> str:
        import docker
        import requests

        container = self._container
        if container is not None:
            with contextlib.suppress(docker.errors.DockerException, requests.RequestException, OSError):  # it counts as lost
                self._knock()
                container.reload()
                return _pause(container) if container.status == "paused" else ""
        return ""

    def advice(self) -> str:
        if self.options.pids < _FEW:
            return f"raise pids, which is only {self.options.pids}"
        return "set another image, such as debian:12" if self._never_ran() else "call again"

    # -- the end -------------------------------------------------------------------------------------------------

    def _let_go(self, container: Container) -> None:
        """Remove the container, unless it is kept.

        If the engine is unavailable or fails, ``removals`` retries. If this process ends first, the watchdog removes the
        container, or ends what runs in a kept one. If that fails too, the next start of toolcrib removes the container.
        """
        import docker
        import requests

        try:
            self._knock()
            if self.options.keep == "remove":
                container.remove(force=True, v=True)
        except docker.errors.NotFound:
            watchdog.leave(str(container.id))
        except (docker.errors.DockerException, requests.RequestException, OSError):
            if self.options.keep == "remove":
                removals.add(str(container.id), self.options.host)
        else:
            watchdog.leave(str(container.id))

    def release_connections(self) -> None:
        """Close the client's connections. The client opens new ones when used again."""
        with self._lock:
            if self._client is not None:
                self._client.close()

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(TimeoutError, GivenUp):  # the work continues; if this process ends first, the watchdog does it
            self._patience.wait(self._close, self._limit)

    def _close(self) -> None:
        with self._lock:
            container, self._container = self._container, None
            if container is not None:
                self._let_go(container)
            client, self._client = self._client, None
            if client is not None:
                client.close()


def _pause(container: Container) -> str:
    return f"the container {container.name} is paused (docker unpause {container.name})"


def _reap(client: docker.DockerClient) -> None:
    """Remove the containers of dead processes, except kept ones."""
    import docker

    # Sparse: only the list is read. A request for each container would fail if one is removed meanwhile.
    for container in client.containers.list(all=True, filters={"label": OWNER}, sparse=True):
        labels = container.attrs.get("Labels") or {}
        if labels.get("toolcrib.keep") != "reuse" and _owner.is_dead(labels.get(OWNER, "")):
            with contextlib.suppress(docker.errors.APIError):  # another process removed it first
                container.remove(force=True, v=True)
