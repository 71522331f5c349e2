"""Sockets of programs that act for their clients: a connection needs approval, whatever the client. A mere name is free."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.conversation.session import Session
from agent.store.memory import MemoryStore
from plugins.console.place import socket_path
from tools.approval.snapshot import LocalFiles
from tools.dispatch.bridge import close_loop, run_async
from tools.judge.detect import examine
from tools.judge.setting import Setting

HOME, PROJECT = "/home/dev", "/home/dev/project"
OWN = (f"{HOME}/.config/toolcrib", f"{HOME}/.local/state/toolcrib")
DOCKER = "/var/run/docker.sock"


def found(command: str) -> dict[str, str]:
    """Return the findings that are not allowed, with their levels."""
    findings = examine(command, PROJECT, None, LocalFiles(), Setting(protected=OWN, home=HOME)).findings
    return {one.key: one.level for one in findings if one.level != "allow"}


CONNECTS = {
    # curl and similar clients
    "curl": f"curl --unix-socket {DOCKER} http://localhost/containers/json",
    "curl-equals": f"curl -s --unix-socket={DOCKER} http://d/info",
    "curl-create": "curl -sX POST --unix-socket /run/docker.sock http://d/v1.43/containers/create -d @c.json",
    "curl-rootless": "curl --unix-socket /run/user/1000/docker.sock http://d/info",
    "curl-home": "curl --unix-socket ~/.docker/run/docker.sock http://d/info",
    "curl-settings": f'printf \'unix-socket = "{DOCKER}"\\nurl = "http://d/info"\\n\' > c.cfg; curl -K c.cfg',
    "curl-podman": "curl --unix-socket /run/podman/podman.sock http://d/v4.0.0/libpod/info",
    "curl-podman-of-a-user": "curl --unix-socket /run/user/1000/podman/podman.sock http://d/info",
    "curl-systemd": "curl --unix-socket /run/systemd/private http://d/",
    "xh": f"xh --unix-socket={DOCKER} http://d/info",
    "httpie-address": "http http+unix://%2Fvar%2Frun%2Fdocker.sock/info",
    "curl-by-timeout": f"timeout 5 curl --unix-socket {DOCKER} http://d/info",
    # programs that connect streams
    "socat": f"echo x | socat - UNIX-CONNECT:{DOCKER}",
    "socat-client": "socat -t1 STDIO UNIX-CLIENT:/run/docker.sock",
    "socat-unix": f"socat - unix:{DOCKER}",
    "socat-file": f"socat - GOPEN:{DOCKER}",
    "socat-bridge": f"socat TCP-LISTEN:2375,fork UNIX-CONNECT:{DOCKER} &",
    "socat-second-name": f"socat UNIX-LISTEN:d.sock,fork UNIX-CONNECT:{DOCKER} &",
    "socat-bus": "socat - UNIX-CONNECT:/run/dbus/system_bus_socket",
    "socat-tmux": "socat - UNIX-CONNECT:/tmp/tmux-0/default",
    "nc": f"printf 'GET /info HTTP/1.0\\r\\n\\r\\n' | nc -U {DOCKER}",
    "nc-joined-options": f"nc -NU {DOCKER} < request",
    "ncat": "ncat --unixsock /run/containerd/containerd.sock",
    "netcat": "netcat -U /run/user/1000/bus",
    "nc-agent": "nc -U /tmp/ssh-XXXXqx1z/agent.4711",
    "nc-agent-by-variable": 'nc -U "$SSH_AUTH_SOCK"',
    "nc-agent-of-gnupg": "nc -U /run/user/1000/gnupg/S.gpg-agent.ssh",
    "nc-tmux": "nc -U /tmp/tmux-1000/default < keys",
    "nc-buildkit": "nc -U /run/buildkit/buildkitd.sock",
    "nc-cri": "nc -U /var/run/crio/crio.sock",
    "openssl": f"openssl s_client -unix {DOCKER}",
    "websocat": f"websocat unix:{DOCKER}",
    "grpcurl": "grpcurl -plaintext -unix /run/containerd/containerd.sock list",
    "varlink": "varlinkctl call /run/systemd/io.systemd.Manager io.systemd.Manager.Reload {}",
    "zsocket": f"zsh -c 'zmodload zsh/net/socket; zsocket {DOCKER}; print -u $REPLY x'",
    "caddy": f"caddy reverse-proxy --from :2375 --to unix/{DOCKER}",
    # languages
    "python": f"python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{DOCKER}'); s.send(b'x')\"",
    "python-here-document": f"python3 - <<'E'\nimport socket\nsocket.socket(socket.AF_UNIX).connect('{DOCKER}')\nE",
    "python-connect-ex": "python3 -c \"from socket import *; socket(AF_UNIX).connect_ex('/run/docker.sock')\"",
    "python-asyncio": f"python3 -c \"import asyncio; asyncio.run(asyncio.open_unix_connection('{DOCKER}'))\"",
    "python-httpx": f"python3 -c \"import httpx; httpx.Client(transport=httpx.HTTPTransport(uds='{DOCKER}')).get('http://d/info')\"",
    "python-docker": f"python3 -c \"import docker; docker.DockerClient(base_url='unix://{DOCKER}').containers.run('x')\"",
    "python-address": "python3 -c \"import requests_unixsocket as r; r.get('http+unix://%2Fvar%2Frun%2Fdocker.sock/info')\"",
    "python-split-words": "python3 -c \"import socket; p = '/run/' + 'docker' + '.sock'; socket.socket(1).connect(p)\"",
    "python-joined": "python3 -c \"import os, socket; socket.socket(1).connect(os.path.join('/run', 'docker.sock'))\"",
    "python-bus": "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('/run/user/1000/bus')\"",
    "python-tmux": "python3 -c \"import socket; socket.socket(1).connect('/tmp/tmux-0/default')\"",
    "python-written": f"cat > c.py <<'E'\nimport socket\nsocket.socket(socket.AF_UNIX).connect('{DOCKER}')\nE\npython3 c.py",
    "perl": f'perl -MIO::Socket::UNIX -e \'my $s = IO::Socket::UNIX->new("{DOCKER}"); print $s "x"\'',
    "ruby": f'ruby -rsocket -e \'UNIXSocket.new("{DOCKER}").puts "x"\'',
    "node-net": f'node -e \'require("net").connect("{DOCKER}").write("x")\'',
    "node-http": f'node -e \'require("http").get({{socketPath: "{DOCKER}", path: "/info"}})\'',
    "php": f'php -r \'fwrite(stream_socket_client("unix://{DOCKER}"), "x");\'',
    "php-fsockopen": f"php -r 'fsockopen(\"unix://{DOCKER}\");'",
    "make": f"printf 'all:\\n\\tcurl --unix-socket {DOCKER} http://d/info\\n' > Makefile; make",
    "shell-written": f"echo 'nc -U {DOCKER}' > c.sh; sh c.sh",
    # other names of the same socket
    "symbolic-link": f"ln -s {DOCKER} d; curl --unix-socket d http://d/info",
    "linked-folder": "ln -s /var/run r; nc -U r/docker.sock",
    "second-name": f"ln {DOCKER} d.sock",
    "after-cd": "cd /var/run && curl --unix-socket docker.sock http://d/info",
    "after-cd-with-dot": "cd /run; nc -U ./docker.sock",
    "detour": "nc -U /var/run/../run//docker.sock",
    "root-of-a-process": "nc -U /proc/1/root/run/docker.sock",
    "pattern": "nc -U /var/run/docker.s*",
    "pattern-question": "curl --unix-socket /run/docker.soc? http://d/info",
    "pattern-agents": "for s in /tmp/ssh-*/agent.*; do SSH_AUTH_SOCK=$s ssh-add -l; done",
    "variable": "s=/var/run/docker; nc -U $s.sock",
    "variable-in-parts": 'd=/run n=docker; curl --unix-socket "$d/${n}.sock" http://d/info',
    "braces": "nc -U /run/{docker,x}.sock",
    "decoded": 'nc -U "$(echo L3Zhci9ydW4vZG9ja2VyLnNvY2s= | base64 -d)"',
    "function": f"c() {{ curl --unix-socket $1 http://d/info; }}; c {DOCKER}",
    "xargs": f"echo {DOCKER} | xargs -I@ curl --unix-socket @ http://d/info",
    "another-shell": f"sh -c 'nc -U {DOCKER}'",
    # environment, and sockets that are opened for others
    "docker-host": "DOCKER_HOST=unix:///run/user/1000/docker.sock docker run -v /:/host alpine",
    "docker-host-exported": "export DOCKER_HOST=unix:///run/podman/podman.sock; docker ps",
    "agent-by-variable": "env SSH_AUTH_SOCK=/tmp/ssh-XXXXqx1z/agent.4711 ssh-add -l",
    "agent-by-variable-in-front": "SSH_AUTH_SOCK=/tmp/ssh-XXXXqx1z/agent.4711 git fetch",
    "agent-by-option": "ssh -o IdentityAgent=/tmp/ssh-XXXXqx1z/agent.4711 example.org true",
    "bus-by-variable": "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus gdbus call --session -d a.b -o / -m a.b.C",
    "bus-by-option": "dbus-send --bus=unix:path=/run/dbus/system_bus_socket --dest=a.b / a.b.C",
    "ssh-forwards-it": f"ssh -NR 2375:{DOCKER} example.org",
    "ssh-forwards-it-here": f"ssh -fNL 2375:{DOCKER} localhost",
    "bind-mount": f"mount --bind {DOCKER} d.sock",
    "mode": f"chmod 666 {DOCKER}",
    "owner": "chown dev /run/docker.sock",
    "access-list": f"setfacl -m u:dev:rw {DOCKER}",
    # toolcrib's own
    "console": "nc -U /run/user/1000/toolcrib-console-1000/gateway",
    "terminals": f"socat - UNIX-CONNECT:{HOME}/.local/state/toolcrib/terminal-sockets/0a1b",
    "terminals-elsewhere": "nc -U /srv/state/toolcrib/terminal-sockets/0a1b",
    "console-in-temporary-folder": "python3 -c \"import socket; socket.socket(1).connect('/tmp/toolcrib-console-0/gateway')\"",
    "console-by-pattern": "nc -U /tmp/toolcrib-*/gateway",
    "console-in-the-state-folder": "curl --unix-socket ~/.local/state/toolcrib/gateway http://d/",
}


@pytest.mark.parametrize("name", list(CONNECTS))
def test_a_connection_is_asked_about_whatever_the_client(name: str) -> None:
    assert found(CONNECTS[name]), "nothing would be asked"


FREE = {
    # checks of the file
    "ls": f"ls -l {DOCKER}",
    "stat": "stat -c %a /run/docker.sock",
    "test": f"test -S {DOCKER} && echo there",
    "brackets": f"if [ -S {DOCKER} ]; then echo yes; else echo no; fi",
    "double-brackets": f"[[ -e {DOCKER} ]] || echo none",
    "file": f"file {DOCKER}",
    "readlink": f"readlink -f {DOCKER}",
    "list-of-sockets": "ls -l /run/*.sock /tmp/tmux-0",
    "python-looks": f"python3 -c \"import os; print(os.path.exists('{DOCKER}'))\"",
    # mentions of the name
    "grep": "grep -rn docker.sock .",
    "grep-path": f"grep -rn {DOCKER} docs src",
    "git-grep": f"git grep -n {DOCKER}",
    "echo": f"echo 'mounts {DOCKER}'",
    "print": f"python3 -c \"print('{DOCKER}')\"",
    "documentation": f"cat >> README.md <<'E'\nMount `{DOCKER}` to let it build.\nE",
    "compose-file": f"cat > compose.yaml <<'E'\nservices:\n  app:\n    volumes:\n      - {DOCKER}:{DOCKER}\nE",
    "edit-of-documents": f"sed -i 's#{DOCKER}#/run/docker.sock#' notes/setup.md",
    "commit": "git add README.md && git commit -m 'Mention /var/run/docker.sock'",
    "variable-alone": 'echo "$SSH_AUTH_SOCK"',
    "variable-is-set": '[ -n "$SSH_AUTH_SOCK" ] && echo set',
    # the project's own
    "own-curl": "curl --unix-socket ./app.sock http://localhost/health",
    "own-curl-folder": "curl -s --unix-socket run/app.sock http://localhost/health | head",
    "own-gunicorn": "gunicorn --bind unix:app.sock app:app &",
    "own-uvicorn": "uvicorn --uds app.sock app:app &",
    "own-nc": "echo ping | nc -U ./app.sock",
    "own-nc-listens": "nc -lU app.sock > got &",
    "own-python": "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('app.sock'); s.send(b'x')\"",
    "own-python-listens": "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.bind('run/app.sock'); s.listen()\"",
    "own-node": 'node -e \'require("http").get({socketPath: "./app.sock", path: "/health"})\'',
    "own-removed": "rm -f app.sock",
    "own-absolute": f"curl --unix-socket {PROJECT}/app.sock http://localhost/health",
    "own-in-the-temporary-folder": "curl --unix-socket /tmp/app.sock http://localhost/health",
    # similar names
    "like-document": "cat src/docker.sock.md",
    "like-agent": "cat tests/fixtures/agent.1.txt",
    "like-folder": "ls docs/docker.sock/",
    "like-module": "pytest checks/test_docker_sock.py",
    "like-bus": "cat src/bus && python3 src/bus/main.py",
    "like-tmux": "cat conf/tmux/default",
    # clients of these programs, judged without a socket's name
    "docker-ps": "docker ps",
    "docker-compose": "docker compose ps",
    "docker-images": "docker images",
    "tmux-ls": "tmux ls",
    "ssh-add": "ssh-add -l",
    "systemctl": "systemctl status nginx",
    "journal": "journalctl -u nginx -n 5 --no-pager",
    "busctl": "busctl list",
    "sockets": "ss -xl",
    # databases
    "psql": "psql -h /var/run/postgresql -c 'select 1'",
    "psql-address": "psql 'postgresql:///app?host=/var/run/postgresql' -c 'select 1'",
    "mysql": "mysql -S /run/mysqld/mysqld.sock -e 'select 1'",
    "redis": "redis-cli -s /run/redis/redis.sock ping",
    "pg-ready": "pg_isready -h /run/postgresql",
}


@pytest.mark.parametrize("name", list(FREE))
def test_names_and_other_sockets_are_free(name: str) -> None:
    assert found(FREE[name]) == {}


# -- in a session: existing files, and files that earlier calls wrote --------------------------------------------------------


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A session in a project; it runs only the test's own calls. Its runtime folder is beside the project."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    for name in ("project", "runtime"):
        (tmp_path / name).mkdir()
    with assemble(project_dir=tmp_path / "project", store=MemoryStore()) as crib:
        made = crib.open_session(platform="cli")
        yield made
        made.close_sync()
    close_loop()


def level(session: Session, command: str) -> str:
    return run_async(session.explain(command)).level


@pytest.mark.parametrize(
    "command",
    [
        "nc -U d",
        "curl --unix-socket ./d http://d/info",
        "nc -U r/docker.sock",
        "nc -U r/*.sock",
        "cd r && nc -U docker.sock",
        "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('d')\"",
        "echo x > n; nc -U d",
    ],
)
def test_links_that_are_there_are_followed(session: Session, tmp_path: Path, command: str) -> None:
    (tmp_path / "project" / "d").symlink_to(DOCKER)
    (tmp_path / "project" / "r").symlink_to("/var/run")
    assert level(session, command) in ("ask", "ask-once", "block")


WRITTEN = {
    "python": ("c.py", f"import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('{DOCKER}')\n", "python3 c.py"),
    "shell": ("c.sh", f"curl --unix-socket {DOCKER} http://d/info\n", "bash c.sh"),
    "make": ("Makefile", f"info:\n\tcurl --unix-socket {DOCKER} http://d/info\n", "make info"),
    "node": ("c.js", f"require('net').connect('{DOCKER}').write('x')\n", "node c.js"),
    "ruby": ("c.rb", f"require 'socket'\nUNIXSocket.new('{DOCKER}').puts 'x'\n", "ruby c.rb"),
    "perl": ("c.pl", f"use IO::Socket::UNIX;\nIO::Socket::UNIX->new('{DOCKER}');\n", "perl c.pl"),
    "go": (
        "c.go",
        f'package main\nimport "net"\nfunc main() {{ c, _ := net.Dial("unix", "{DOCKER}"); c.Write(nil) }}\n',
        "go run c.go",
    ),
    "settings-of-curl": ("c.cfg", f'unix-socket = "{DOCKER}"\nurl = "http://d/info"\n', "curl -K c.cfg"),
    "package": ("package.json", f'{{"scripts": {{"info": "curl --unix-socket {DOCKER} http://d/info"}}}}\n', "npm run info"),
}


@pytest.mark.parametrize("name", list(WRITTEN))
def test_what_an_earlier_call_wrote_is_followed(session: Session, name: str) -> None:
    path, content, command = WRITTEN[name]
    result: Any = session.call("write_file", {"path": path, "content": content}).result
    if result.is_success:  # otherwise the write was refused
        assert level(session, command) in ("ask", "ask-once", "block")


@pytest.mark.parametrize(
    "client", ["nc -U {0}", "curl --unix-socket {0} http://d/", "socat - UNIX-CONNECT:{0}", "toolcrib console --socket {0}"]
)
def test_our_own_socket_is_one_of_them(session: Session, client: str) -> None:
    assert level(session, client.format(socket_path())) in ("ask", "ask-once", "block")


def test_a_socket_that_the_configuration_names_is_our_own(session: Session, tmp_path: Path, config: Any) -> None:
    """The user chooses its folder and name."""
    from agent.config import load_config

    path = tmp_path / "elsewhere" / "chat"
    config(f"plugins: {{enabled: [console]}}\nplatforms: {{console: {{settings: {{socket: '{path}'}}}}}}\n")
    with assemble(config=load_config(profile=""), project_dir=tmp_path / "project", store=MemoryStore()) as crib:
        other = crib.open_session(platform="cli")
        assert level(other, f"nc -U {path}") in ("ask", "ask-once", "block")
        assert level(other, f"ls -l {path}") == "allow"
        other.close_sync()
