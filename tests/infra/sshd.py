"""An ssh server for tests and benchmarks, with keys and an account that exist only for it.

    python tests/infra/sshd.py [--root] [--far] [--shm] [--set KEY=VALUE ...]

prints ``ready FOLDER HOST PORT USER`` and serves until its stdin ends; then it removes everything that it made: processes, the
account, the network, FOLDER. In FOLDER are ``id`` (an accepted key), ``known_hosts`` and ``home``. ``--root``: USER is root, else
an account without rights. ``--far``: the server is in its own network, whose link can be cut. ``--shm``: its /dev/shm is a
separate disk of 1 MB. It reads these lines, and answers each by ``ok``: ``stop`` (ends the server; its sessions continue),
``start``, ``newkey`` (another host key from the next start on), ``small`` (FOLDER/small is a disk of 1 MB); with ``--far`` also
``cut`` (the link is down), ``drop`` (packets vanish), ``reset`` (connections are reset) and ``heal``.
Needs root, sshd, ssh-keygen; ``--far`` ip and iptables.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_LIMIT = 60.0
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_FIXED = {
    "AuthorizedKeysFile": "{0}/authorized_keys",
    "HostKey": "{0}/hostkey",
    "KbdInteractiveAuthentication": "no",
    "PasswordAuthentication": "no",
    "PermitRootLogin": "prohibit-password",
    "PidFile": "none",
    "PrintMotd": "no",
    "StrictModes": "no",
    "Subsystem": "sftp internal-sftp",
    "UseDNS": "no",
    "UsePAM": "no",
}


def missing(*, far: bool) -> str:
    """Return why no server can run here, or "" if one can."""
    if os.geteuid() != 0:
        return "an ssh server with accounts of its own needs root"
    names = ["sshd", "ssh-keygen", "useradd", *(["ip", "iptables"] if far else [])]
    gone = [name for name in names if shutil.which(name, path=_PATH) is None]
    return f"{', '.join(gone)} not found: apt-get install openssh-server iproute2 iptables" if gone else ""


def _do(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ, "PATH": _PATH}, timeout=_LIMIT)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip() or done.stdout.strip()}")


class Network:
    """A namespace that only a pair of interfaces joins to this machine."""

    def __init__(self) -> None:
        token = secrets.token_hex(4)
        self.name, self._near, self._far = f"tc-{token}", f"tca{token}", f"tcb{token}"
        net, last = f"10.231.{1 + secrets.randbelow(254)}", 4 * secrets.randbelow(63)
        self.address = f"{net}.{last + 2}"
        _do("ip", "netns", "add", self.name)
        _do("ip", "link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self.name)
        _do("ip", "addr", "add", f"{net}.{last + 1}/30", "dev", self._near)
        _do("ip", "link", "set", self._near, "up")
        _do("ip", "-n", self.name, "addr", "add", f"{self.address}/30", "dev", self._far)
        _do("ip", "-n", self.name, "link", "set", self._far, "up")
        _do("ip", "-n", self.name, "link", "set", "lo", "up")

    def command(self, name: str) -> None:
        inside = ("ip", "netns", "exec", self.name, "iptables")
        if name == "cut":
            _do("ip", "-n", self.name, "link", "set", self._far, "down")
        elif name == "heal":
            _do("ip", "-n", self.name, "link", "set", self._far, "up")
            _do(*inside, "-F")
        elif name == "drop":
            for chain in ("INPUT", "OUTPUT"):
                _do(*inside, "-A", chain, "-p", "tcp", "-j", "DROP")
        elif name == "reset":
            _do(*inside, "-A", "INPUT", "-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset")

    def remove(self) -> None:
        _do("ip", "netns", "del", self.name)  # this removes the pair too


class Server:
    def __init__(self, *, root: bool, far: bool, shm: bool, settings: dict[str, str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tc-sshd-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.user = "root" if root else f"tc{secrets.token_hex(4)}"
        self.network = Network() if far else None
        self.host = self.network.address if self.network else "127.0.0.1"
        self.port = 22 if far else _free_port()
        self._shm = shm
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._run = -1

    def prepare(self) -> None:
        (self.folder / "home").mkdir()
        if self.user != "root":
            _do("useradd", "--no-create-home", "--home-dir", str(self.folder / "home"), "--shell", "/bin/bash", self.user)
            _do("usermod", "-p", "*", self.user)  # a new account is locked, also for keys
            _clear(pwd.getpwnam(self.user).pw_uid)  # left behind by a killed server of ours
            shutil.chown(self.folder / "home", self.user, self.user)
        _do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(self.folder / "id"))
        shutil.copy(self.folder / "id.pub", self.folder / "authorized_keys")
        self.new_key()
        name = self.host if self.port == 22 else f"[{self.host}]:{self.port}"
        key = (self.folder / "hostkey.pub").read_text().strip()
        (self.folder / "known_hosts").write_text(f"{name} {key}\n")
        settings = {key: value.format(self.folder) for key, value in _FIXED.items()}
        if self.user == "root":  # its own home has login files, which may wait, and histories, which would grow
            settings["SetEnv"] = f"HOME={self.folder}/home"
        settings |= self._settings
        lines = [f"Port {self.port}", f"ListenAddress {self.host}", *(f"{key} {value}" for key, value in settings.items())]
        (self.folder / "sshd_config").write_text("\n".join(lines) + "\n")
        self._run = _hold_run()

    def new_key(self) -> None:
        for name in ("hostkey", "hostkey.pub"):
            (self.folder / name).unlink(missing_ok=True)
        _do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(self.folder / "hostkey"))

    def start(self) -> None:
        program = shutil.which("sshd", path=_PATH)
        assert program is not None
        log = self.folder / "sshd.log"
        log.unlink(missing_ok=True)
        inside = ["ip", "netns", "exec", self.network.name] if self.network else []
        if self._shm:
            small = 'mount -t tmpfs -o size=1m,mode=1777 tc-shm /dev/shm && exec "$@"'
            inside += ["unshare", "--mount", "--propagation", "private", "sh", "-c", small, "sh"]
        argv = [*inside, program, "-D", "-f", str(self.folder / "sshd_config"), "-E", str(log)]
        env = {"PATH": _PATH, "LANG": "C.UTF-8"}
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, env=env, cwd="/", start_new_session=True)
        give_up = time.monotonic() + _LIMIT
        while not log.exists() or "listening on" not in log.read_text(errors="replace"):
            if self._process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f"sshd did not start: {log.read_text(errors='replace')[-1000:] if log.exists() else ''}")
            time.sleep(0.01)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_LIMIT)
            self._process = None

    def command(self, name: str) -> None:
        if name == "start":
            self.start()
        elif name == "stop":
            self.stop()
        elif name == "newkey":
            self.new_key()
        elif name == "small":
            (self.folder / "small").mkdir()
            _do("mount", "-t", "tmpfs", "-o", "size=1m,mode=777,nr_inodes=64", "tc-small", str(self.folder / "small"))
        elif self.network is not None:
            self.network.command(name)

    def remove(self) -> None:
        self.stop()
        if self.user != "root":
            self._end_account()
        if self.network is not None:
            self.network.remove()
        if (self.folder / "small").is_mount():
            _do("umount", "--lazy", str(self.folder / "small"))
        if self._run >= 0:
            _let_go_of_run(self._run)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end_account(self) -> None:
        with contextlib.suppress(KeyError, RuntimeError):  # it was not made
            uid = pwd.getpwnam(self.user).pw_uid
            give_up = time.monotonic() + _LIMIT
            while (left := _processes_of(uid)) and time.monotonic() < give_up:
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.02)
            _clear(uid)  # the next account will get the same uid
            _do("userdel", "--force", self.user)


def _clear(uid: int) -> None:
    """Delete an account's files in shared folders: a killed guard could not remove its folder."""
    for base in ("/dev/shm", "/tmp", "/var/tmp"):
        for entry in Path(base).iterdir():
            with contextlib.suppress(OSError):  # other programs delete files there
                if entry.lstat().st_uid == uid:
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def _processes_of(uid: int) -> list[int]:
    """Return the running processes of an account."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):  # it ended in the meantime
            if folder.stat().st_uid == uid and (folder / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                found.append(int(folder.name))
    return found


_RUN = Path("/run/sshd")
"""Every sshd needs this folder, and all sshds on this machine share it."""
_OURS = 0o700
"""Mode of the folder if one of our servers made it; a system's own may be readable by all."""


def _hold_run() -> int:
    """Return a descriptor that holds the folder for us; the folder is made if it is missing."""
    while True:
        with contextlib.suppress(FileExistsError):
            _RUN.mkdir(mode=_OURS)
        fd = -1
        with contextlib.suppress(FileNotFoundError):  # its last user has just removed it
            fd = os.open(_RUN, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(fd, fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(fd), _RUN.stat()):
                return fd
        if fd >= 0:
            os.close(fd)


def _let_go_of_run(fd: int) -> None:
    with contextlib.suppress(BlockingIOError):  # another server uses it
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_mode & 0o777 == _OURS:
            _RUN.rmdir()
    os.close(fd)


def _free_port() -> int:
    """Return a port below the range of dynamic ports: it stays free while the server is stopped."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with contextlib.suppress(OSError), socket.socket() as sock:  # taken
            sock.bind(("127.0.0.1", port))
            return port


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", action="store_true")
    parser.add_argument("--far", action="store_true")
    parser.add_argument("--shm", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    why = missing(far=given.far)
    if why:
        print("missing", why, flush=True)
        return 3
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # our parent ends us by closing our stdin
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    server = Server(root=given.root, far=given.far, shm=given.shm, settings=dict(each.split("=", 1) for each in given.set))
    try:
        server.prepare()
        server.start()
        print("ready", server.folder, server.host, server.port, server.user, flush=True)
        for line in sys.stdin:
            server.command(line.strip())
            print("ok", flush=True)
    except (RuntimeError, OSError) as error:
        print("failed", str(error).replace("\n", " "), flush=True)
        return 1
    finally:
        server.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
