"""This machine in a sandbox: all of it readable, little of it writable, no network, no other processes, a /tmp of its own."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from toolcrib import EnvironmentFailed, FileInfo, Health
from tools.environments import _files
from tools.environments.local import LocalEnvironment
from tools.environments.shell.place import ShellProcess, is_supported
from tools.environments.shell.watchdog import watchdog

_INNER = "/dev/.toolcrib"
"""Where the sandbox finds the folder through which its shells are spoken to: nowhere that commands list or clean."""
MASKED = (
    *("~/.ssh", "~/.gnupg", "~/.aws", "~/.azure", "~/.config/gcloud", "~/.docker", "~/.kube"),
    *("~/.netrc", "~/.pgpass", "~/.git-credentials"),
)
"""Empty in the sandbox unless told otherwise: what it can read and send somewhere must not be keys."""
_START_LIMIT = 20.0
_NEEDED = "install it (apt install bubblewrap), or choose sandbox: none"
_KEEPER = r"""
set -m
trap : INT TERM HUP
printf 'ready\n' >&3
while IFS= read -r folder; do
  {
    cd "$folder" && { env -i TERM=dumb setsid bash --noprofile --norc bash; printf '%s\n' $? >z; mv z status; }
  } </dev/null >/dev/null 2>&1 3>&- &
done
"""
"""Starts a shell for each line that it reads; at the end of its input it ends, and all that is in the sandbox with it."""


class _Process:
    def __init__(self, pid: int, status: str) -> None:
        self.pid = self.session = pid
        self._status = status
        self._code: int | None = None
        self._pidfd = os.pidfd_open(pid)

    def fileno(self) -> int:
        return self._pidfd

    def exit_code(self) -> int | None:
        if self._code is None and (self._pidfd < 0 or select.select([self._pidfd], [], [], 0)[0]):
            self._code = self._said()
        return self._code

    def _said(self) -> int:
        """Whoever started it writes its status right after its end; unless that died too, with the whole sandbox."""
        give_up = time.monotonic() + 0.5
        while time.monotonic() < give_up:
            with contextlib.suppress(OSError, ValueError):  # not yet there
                # What is there may be anything: commands can reach it.
                fd = os.open(self._status, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    return int(os.read(fd, 8)) & 0xFF
                finally:
                    os.close(fd)
            time.sleep(0.001)
        return 128 + signal.SIGKILL

    def close(self) -> None:
        if self._pidfd >= 0:
            self.exit_code()
            os.close(self._pidfd)
            self._pidfd = -1


class Sandbox:
    """One bubblewrap and the shells in it. Started when first needed, and again where it has died. A Place for shells."""

    where = "local:bubblewrap"

    def __init__(self, root: str, writable: Sequence[str], masked: Sequence[str], network: bool) -> None:
        self.root, self.inner = root, _INNER
        self._writable, self._masked, self._network = writable, masked, network
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper = 0
        self._lock = threading.Lock()

    # -- shells --------------------------------------------------------------------------------------------------

    def start(self, inner_folder: str, folder: str) -> _Process:
        with self._lock:
            process = self._running()
            before = set(_children(self._keeper))
            try:
                assert process.stdin is not None  # noqa: S101 - it was given a pipe
                process.stdin.write(f"{inner_folder}\n".encode())
            except OSError as error:
                raise EnvironmentFailed(f"the sandbox has ended: {error.strerror}: call again to start another") from error
            give_up = time.monotonic() + _START_LIMIT
            while time.monotonic() < give_up and process.poll() is None:
                for wrapper in set(_children(self._keeper)) - before:
                    for pid in _children(wrapper):
                        if _leads(pid):
                            return _Process(pid, f"{folder}/status")
                time.sleep(0.0005)
        raise EnvironmentFailed(
            "no shell could be started in the sandbox: too many processes may run already, or memory is short"
        )

    def attach(self, process: ShellProcess, said_pid: int) -> None:
        """What it calls itself means nothing out here."""

    # -- files ---------------------------------------------------------------------------------------------------

    def view(self) -> str:
        """A path to its root folder, as its commands see it. Raises EnvironmentFailed."""
        with self._lock:
            self._running()
            return f"/proc/{self._keeper}/root"

    # -- the sandbox itself --------------------------------------------------------------------------------------

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._forget()
        path = shutil.which("bwrap")
        if path is None:
            raise EnvironmentFailed(f"bubblewrap is not found on PATH, and nothing runs outside of the sandbox: {_NEEDED}")
        if shutil.which("setsid") is None:
            raise EnvironmentFailed("setsid is not found on PATH: install it (apt install util-linux)")
        info, ready = os.pipe(), os.pipe()
        try:
            os.makedirs(self.root, mode=0o700, exist_ok=True)  # noqa: PTH103 - it is a string everywhere else
            process = subprocess.Popen(
                [
                    path,
                    "--info-fd",
                    str(info[1]),
                    *self._options(),
                    "--",
                    "bash",
                    "--noprofile",
                    "--norc",
                    "-c",
                    f"exec 3>&{ready[1]} {ready[1]}>&-\n{_KEEPER}",
                ],
                env={"PATH": os.environ.get("PATH", os.defpath)},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[info[1], ready[1]],
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise EnvironmentFailed(f"bubblewrap cannot be started: {error.strerror}: {_NEEDED}") from error
        finally:
            os.close(info[1])
            os.close(ready[1])
        watchdog.add(process.pid)
        self._process = process
        try:
            self._await(process, info[0], ready[0])
        finally:
            os.close(info[0])
            os.close(ready[0])
        return process

    def _await(self, process: subprocess.Popen[bytes], info: int, ready: int) -> None:
        said = _read_all(ready, b"\n")
        if not said:
            assert process.stderr is not None  # noqa: S101 - it was given a pipe
            process.kill()
            why = process.stderr.read(4000).decode(errors="replace").strip() or "it did not answer"
            self._forget()
            raise EnvironmentFailed(
                f"bubblewrap cannot work here, and nothing runs outside of the sandbox: {why}. User namespaces may be turned off "
                "(sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns); or choose sandbox: none"
            )
        first = int(json.loads(_read_all(info, b"}") or b"{}")["child-pid"])
        self._keeper = _children(first)[0]

    def _options(self) -> list[str]:
        options = ["--unshare-all", *(["--share-net"] if self._network else []), "--cap-drop", "ALL", "--ro-bind", "/", "/"]
        options += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run"]  # noqa: S108 - one of its own
        names = os.path.realpath("/etc/resolv.conf")
        if self._network and names.startswith("/run/") and Path(names).exists():
            options += ["--ro-bind", names, names]
        for path in sorted(self._writable):
            options += ["--bind", path, path]
        for path in self._masked:
            if Path(path).is_dir():
                options += ["--tmpfs", path, "--remount-ro", path]
            elif Path(path).exists():
                options += ["--ro-bind", "/dev/null", path]
        return [*options, "--bind", self.root, _INNER, "--chdir", "/"]

    def _forget(self) -> None:
        process, self._process, self._keeper = self._process, None, 0
        if process is None:
            return
        for pipe in (process.stdin, process.stderr):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:  # its keeper was stopped, or is stuck
            process.kill()
            process.wait()
        watchdog.remove(process.pid)

    def close(self) -> None:
        """Ends everything in it."""
        with self._lock:
            self._forget()


class BubblewrapEnvironment(LocalEnvironment):
    """As LocalEnvironment, in a sandbox: ``writable`` folders and the one it starts in can be written, ``masked`` paths are
    empty, ``network`` says whether there is any. Raises EnvironmentFailed where that cannot be had; it never runs without.

    Files are seen as commands see them: what is masked is empty, and what is read-only refuses to be written (OSError, EROFS).
    /tmp is the sandbox's own and gone with it.
    """

    def __init__(
        self,
        cwd: str | None = None,
        *,
        pass_env: Sequence[str] = (),
        writable: Sequence[str] = (),
        masked: Sequence[str] = MASKED,
        network: bool = False,
    ) -> None:
        for name, given in (("writable", writable), ("masked", masked)):
            if isinstance(given, str):
                raise EnvironmentFailed(f"{name} takes a list of paths: [{given!r}]")
        if not is_supported():
            raise EnvironmentFailed("the bubblewrap sandbox needs Linux and bash: install bash, or choose sandbox: none")
        super().__init__(cwd, pass_env=pass_env)
        self._writable = [_folder(self._cwd, "the working folder"), *(_folder(path, "the writable folder") for path in writable)]
        self._masked = [os.path.realpath(Path(path).expanduser()) for path in masked]
        self._network = network
        self._sandbox: Sandbox | None = None

    @property
    def identity(self) -> str:
        return Sandbox.where

    def _place(self, root: str) -> Sandbox:
        self._sandbox = Sandbox(root, self._writable, self._masked, self._network)
        return self._sandbox

    def _view(self) -> str:
        self._open()
        assert self._sandbox is not None  # noqa: S101 - _open made it
        return self._sandbox.view()

    def _is_folder(self, path: str) -> bool:
        return os.path.isdir(_files.resolve_under(self._view(), path, "/", inside=True))  # noqa: PTH112 - a string with links resolved

    async def health(self) -> Health:
        try:
            self._view()
        except EnvironmentFailed as error:
            return Health(str(error))
        return await super().health()

    async def close(self) -> None:
        await super().close()
        if self._sandbox is not None:
            self._sandbox.close()

    # -- files ---------------------------------------------------------------------------------------------------

    async def resolve(self, path: str) -> str:
        return _files.resolve_under(self._view(), path, self.cwd)

    async def stat(self, path: str) -> FileInfo | None:
        folder, _, name = path.rstrip("/").rpartition("/")
        view = self._view()
        return _files.info(f"{_files.resolve_under(view, folder or '/', self.cwd)}/{name}".replace("//", "/"), view)

    async def read_file(self, path: str, *, limit: int | None = None) -> bytes:
        return _files.read(path, limit, self._view())

    async def write_file(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        with self._explained(path):
            _files.write(path, data, mode, self._view())

    async def delete_file(self, path: str) -> None:
        with self._explained(path):
            _files.delete(path, self._view())

    async def list_dir(self, path: str) -> list[FileInfo]:
        return _files.list_dir(path, self._view())

    @contextlib.contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno == errno.EROFS:
                where = ", ".join(self._writable)
                raise OSError(
                    errno.EROFS, f"read-only in the sandbox, where /tmp and these are writable: {where}", path
                ) from error
            raise


def _folder(path: str, what: str) -> str:
    found = os.path.realpath(Path(path).expanduser())
    if not Path(found).is_dir():
        raise EnvironmentFailed(f"{what} {found} does not exist: create it or choose another")
    if found == "/":
        raise EnvironmentFailed(f"{what} is /, which would make the whole machine writable: choose a folder below it")
    return found


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split()]
    except OSError:
        return []


def _leads(pid: int) -> bool:
    """Whether a process leads its session, as the shell does once setsid has done its work."""
    try:
        return os.getsid(pid) == pid
    except OSError:
        return False


def _read_all(fd: int, end: bytes) -> bytes:
    """Up to ``end``; b"" where it does not come."""
    said = b""
    give_up = time.monotonic() + _START_LIMIT
    while not said.rstrip(b" \n" if end != b"\n" else b"").endswith(end):
        if not select.select([fd], [], [], max(0.0, give_up - time.monotonic()))[0]:
            return b""
        chunk = os.read(fd, 4096)
        if not chunk:
            return b""
        said += chunk
    return said
