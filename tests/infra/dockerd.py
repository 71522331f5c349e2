"""A docker engine for tests and benchmarks, on a private socket in its own folder. Its image is built at the start.

    python tests/infra/dockerd.py

prints ``ready SOCKET IMAGE`` and serves until its stdin ends; then it removes everything that it made. It reads these lines, and
answers each by ``ok``: ``kill`` (SIGKILL to dockerd; containers continue), ``start`` (again). Needs root, dockerd, containerd,
runc.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

IMAGE = "toolcrib-test:hostusr"
_LIMIT = 60.0
_PROGRAMS = ("dockerd", "containerd", "runc")
_CONTAINERD = """version = 2
root = "{0}/ctd-root"
state = "{0}/ctd-state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "{0}/ctd.sock"
"""


def missing() -> str:
    """Return why no engine can run here, or "" if one can."""
    if os.geteuid() != 0:
        return "a docker engine needs root"
    gone = [name for name in _PROGRAMS if shutil.which(name) is None]
    return f"{', '.join(gone)} not found: apt-get install docker.io iptables" if gone else ""


class Engine:
    def __init__(self) -> None:
        # Not in TMPDIR: a socket's path may have at most 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="tc-dockerd-", dir="/tmp"))
        self.socket = self.folder / "docker.sock"
        self._containerd: subprocess.Popen[bytes] | None = None
        self._dockerd: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._containerd is None:
            (self.folder / "containerd.toml").write_text(_CONTAINERD.format(self.folder))
            self._containerd = self._run("containerd", "-c", str(self.folder / "containerd.toml"))
            _wait(lambda: (self.folder / "ctd.sock").exists(), self._containerd, self.folder / "containerd.log")
        (self.folder / "docker.pid").unlink(missing_ok=True)
        options = ["--containerd", f"{self.folder}/ctd.sock", "--data-root", f"{self.folder}/data"]
        options += ["--exec-root", f"{self.folder}/exec", "-H", f"unix://{self.socket}", "-p", f"{self.folder}/docker.pid"]
        options += ["--iptables=false", "--ip6tables=false", "--bridge=none", "--ip-forward=false", "--ip-masq=false"]
        self._dockerd = self._run("dockerd", *options, "--live-restore")
        _wait(self.answers, self._dockerd, self.folder / "dockerd.log")

    def _run(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{name}.log", "ab") as log:  # noqa: PTH123 - both spellings are the same
            return subprocess.Popen(
                [name, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
            )

    def answers(self) -> bool:
        import docker

        with (
            contextlib.suppress(Exception),
            contextlib.closing(docker.DockerClient(f"unix://{self.socket}", timeout=5)) as client,
        ):
            return bool(client.ping())
        return False

    def kill(self) -> None:
        assert self._dockerd is not None
        self._dockerd.send_signal(signal.SIGKILL)
        self._dockerd.wait()

    def build(self) -> None:
        """Build an empty image: containers mount this machine's /usr."""
        import docker

        with contextlib.closing(docker.DockerClient(f"unix://{self.socket}", timeout=60)) as client:
            changes = ["ENV PATH=/usr/local/bin:/usr/bin:/bin", "WORKDIR /workspace"]
            name, _, tag = IMAGE.partition(":")
            client.api.import_image_from_data(_tree(), repository=name, tag=tag, changes=changes)

    def stop(self) -> None:
        import docker

        if self._dockerd is not None and self._dockerd.poll() is not None:
            with contextlib.suppress(Exception):  # stop it even if this fails
                self.start()
        with (
            contextlib.suppress(Exception),
            contextlib.closing(docker.DockerClient(f"unix://{self.socket}", timeout=30)) as client,
        ):
            for container in client.containers.list(all=True):
                container.remove(force=True)
        for process in (self._dockerd, self._containerd):
            if process is not None:
                _end(process)
        self._clean()

    def _clean(self) -> None:
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for mount in sorted((each for each in mounts if each.startswith(f"{self.folder}/")), reverse=True):
            subprocess.run(["umount", "-l", mount], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)


def _tree() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name in ("usr", "etc", "tmp", "root", "proc", "sys", "dev", "sbin", "workspace"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            folder.uid = folder.gid = 1000 if name == "workspace" else 0
            tar.addfile(folder)
        for name in ("bin", "lib", "lib64"):  # /sbin is a folder, because the engine puts its init there
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(link)
        texts = {
            "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nagent:x:1000:1000::/workspace:/bin/bash\n",
            "etc/group": "root:x:0:\nagent:x:1000:\n",
        }
        for name, text in texts.items():
            file = tarfile.TarInfo(name)
            file.size, file.mode = len(text), 0o644
            tar.addfile(file, io.BytesIO(text.encode()))
        for path in ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"):
            if os.path.lexists(path):
                tar.add(path, path.lstrip("/"))
    return data.getvalue()


def _wait(ready: object, process: subprocess.Popen[bytes], log: Path) -> None:
    assert callable(ready)
    give_up = time.monotonic() + _LIMIT
    while not ready():
        if process.poll() is not None or time.monotonic() > give_up:
            said = log.read_text(errors="replace")[-1500:] if log.exists() else ""
            raise RuntimeError(f"{Path(str(process.args[0])).name} did not start: {said}")  # type: ignore[index]  # a list
        time.sleep(0.02)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main() -> int:
    if why := missing():
        print(f"failed {why}", flush=True)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # our end is that of stdin, also when a user interrupts the tests
    engine = Engine()
    try:
        engine.start()
        engine.build()
        print(f"ready {engine.socket} {IMAGE}", flush=True)
        for line in sys.stdin:
            {"kill": engine.kill, "start": engine.start}[line.strip()]()
            print("ok", flush=True)
    except Exception as error:  # noqa: BLE001 - the process that waits reads one line
        print(f"failed {str(error)!r}", flush=True)
        return 1
    finally:
        engine.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
