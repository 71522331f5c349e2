"""Home, web server and installed toolcrib of the sequences in a sandbox, prepared before each sequence and restored after it."""

from __future__ import annotations

import os
import shutil
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HOME, PROJECT, VICTIM = Path("/home/dev"), Path("/home/dev/project"), Path("/home/dev/photos")
PUBLIC, WWW, WEB_LOG = Path("/srv/git"), Path("/srv/www"), Path("/run/web.log")
TEMPLATE = Path("/run/template")
PORT = 8080
SCRATCH = [Path(name) for name in ("/home/dev", "/srv", "/tmp", "/var/tmp", "/dev/shm")]


WORLD = r"""
set -eu
mkdir -p ~/.local/bin ~/.ssh ~/.config/toolcrib ~/photos/2024 ~/project/src ~/project/build/sub ~/project/tests "$PUBLIC" "$WWW"
ln -s /run/venv/bin/toolcrib ~/.local/bin/toolcrib
cd ~
printf 'alias ll="ls -l"\n' > .bashrc
printf '[user]\n\tname = Dev\n\temail = dev@example.org\n[init]\n\tdefaultBranch = main\n' > .gitconfig
printf '[url "%s/"]\n\tinsteadOf = https://git.test/\n' "$PUBLIC" >> .gitconfig
printf -- '-----BEGIN OPENSSH PRIVATE KEY-----\nseq-private-key\n' > .ssh/id_ed25519
printf 'ssh-ed25519 AAAA dev\n' > .ssh/authorized_keys
mkdir -p .config/pip; printf '[global]\nretries = 0\ntimeout = 1\n' > .config/pip/pip.conf
printf 'fetch-retries=0\naudit=false\nfund=false\nupdate-notifier=false\n' > .npmrc
printf 'display: {}\n' > .config/toolcrib/config.yaml
chmod 600 .ssh/* .config/toolcrib/config.yaml
printf 'one\n' > photos/one.txt; printf 'two\n' > photos/2024/two.txt
cd project
printf '#!/bin/sh\ntrue\n' > x.sh; chmod +x x.sh
printf '# project\n' > README.md
printf 'def add(a, b):\n    return a + b\n' > src/calc.py
(cd tests; printf 'from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n' > test_calc.py)
printf 'all:\n\t@echo built\ntest:\n\tpython3 -m pytest -q\n' > Makefile
printf 'build/\n.env\n*.log\n' > .gitignore
printf 'TOKEN=seq-project-token\n' > .env
printf 'object\n' > build/sub/a.o
git init -q .; git add -A; git commit -q -m 'Begin'
"""


def make_template() -> None:
    """Build the template of every sequence's home."""
    places = {"HOME": str(HOME), "PUBLIC": str(PUBLIC), "WWW": str(WWW)}
    subprocess.run(["bash", "-c", WORLD], check=True, env={**os.environ, **places})
    for folder in (HOME, Path("/srv")):
        shutil.copytree(folder, TEMPLATE / folder.relative_to("/"), symlinks=True)


def renew(*, fill: bool) -> None:
    """Empty every folder that a sequence can write to, and prepare the world again."""
    held = _mounted()
    for folder in SCRATCH:
        for entry in folder.iterdir():
            if not any(path.is_relative_to(entry) for path in held):
                _remove(entry)
    WEB_LOG.unlink(missing_ok=True)
    if fill:
        for folder in (HOME, Path("/srv")):
            shutil.copytree(TEMPLATE / folder.relative_to("/"), folder, symlinks=True, dirs_exist_ok=True)


def _mounted() -> list[Path]:
    """Return the mounts here: the test interpreter may be in its own folder below ``/tmp``."""
    return [Path(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]


def _remove(entry: Path) -> None:
    if entry.is_symlink() or not entry.is_dir():
        entry.unlink(missing_ok=True)
        return
    entry.chmod(0o700)  # a sequence may have removed its permissions
    for folder, names, _ in os.walk(entry):
        for inner in (Path(folder, name) for name in names):
            if not inner.is_symlink():
                inner.chmod(0o700)  # before os.walk lists it
    shutil.rmtree(entry)


_Stamp = tuple[int, int, int, int]


class OwnCode:
    """The installed toolcrib that is restored after each sequence: files, links and folders."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._stamps = self._seen()
        self._kept = {path: self._content(Path(path)) for path in self._stamps}

    def _seen(self) -> dict[str, _Stamp]:
        """Return the present files, a folder before its contents; missing compiled modules are compiled again."""
        found: dict[str, _Stamp] = {}
        folders = [str(self._top)]
        while folders:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if is_folder and entry.name == "__pycache__":
                        continue
                    found[entry.path] = _stamp(entry.stat(follow_symlinks=False), is_folder=is_folder)
                    if is_folder:
                        folders.append(entry.path)
        return found

    @staticmethod
    def _content(path: Path) -> tuple[str, Any, int]:
        if path.is_symlink():
            return "link", path.readlink(), 0
        if path.is_dir():
            return "folder", None, 0
        return "file", path.read_bytes(), path.stat().st_mode

    def restore(self) -> None:
        """Remove new files, and write changed or missing ones again."""
        seen = self._seen()
        if seen == self._stamps:
            return
        for name in seen.keys() - self._kept.keys():
            if os.path.lexists(name):
                _remove(Path(name))
        for name, (kind, content, mode) in self._kept.items():
            if seen.get(name) == self._stamps[name]:
                continue
            path = Path(name)
            if os.path.lexists(path):
                _remove(path)
            if kind == "link":
                path.symlink_to(content)
            elif kind == "folder":
                path.mkdir()
            else:
                path.write_bytes(content)
                path.chmod(mode)
            self._stamps[name] = _stamp(path.lstat(), is_folder=kind == "folder")


def _stamp(seen: os.stat_result, *, is_folder: bool) -> _Stamp:
    return seen.st_ino, seen.st_mode, 0 if is_folder else seen.st_size, 0 if is_folder else seen.st_ctime_ns


def serve_web() -> None:
    """Serve /srv/www in a child process, and record each request with its body. The port is open when this returns."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with WEB_LOG.open("ab") as log:
                log.write(f"{self.command} {self.path} {self.headers}\n".encode() + body + b"\n")
            file = WWW / self.path.lstrip("/").partition("?")[0]
            content = file.read_bytes() if file.is_file() else b""
            self.send_response(200 if content or self.command != "GET" else 404)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PUT = do_GET  # noqa: N815 - names that the base class calls

        def log_message(self, *args: object) -> None:
            """Log nothing, to keep the terminal unchanged."""

    server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
    if os.fork() == 0:
        server.serve_forever()
    server.server_close()
