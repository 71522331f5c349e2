"""Sockets of programs that act for their clients: any client needs approval, and so do related operations."""

from __future__ import annotations

import pytest

from tools.judge.detect import examine
from tools.judge.meaning.state import NoFiles, Seen
from tools.judge.setting import Setting

HOME = "/home/dev"


class Places(NoFiles):
    """A snapshot of a session that works in the project."""

    def is_inside(self, path: str) -> bool:
        return path.startswith((f"{HOME}/project/", "/tmp/"))

    def is_new(self, path: str) -> bool:
        return False

    def inspect_path(self, path: str) -> Seen:
        return Seen("missing")


def levels(command: str) -> dict[str, str]:
    found = examine(command, f"{HOME}/project", None, Places(), Setting(home=HOME)).findings
    return {finding.key.partition("@")[0]: finding.level for finding in found}


@pytest.mark.parametrize(
    "command",
    [
        "nc -U /var/run/docker.sock",
        "nc -NU -w 2 /var/run/docker.sock",
        "ncat --unixsock /run/docker.sock",
        "socat TCP-LISTEN:2375,fork UNIX-CONNECT:/run/docker.sock",
        "socat - unix:/run/../run/docker.sock",
        "socat - 'GOPEN:/run/docker.sock, retry=3'",
        "socat - /run/docker.sock",
        "curl --unix-socket=/run/docker.sock http://x/",
        'curl --unix-socket "$XDG_RUNTIME_DIR/podman/podman.sock" http://x/',
        'curl --unix-socket "$HOME/.docker/run/docker.sock" http://x/',
        "sudo timeout 5 curl --unix-socket /run/k3s/containerd/containerd.sock http://x/",
        "ssh build.test curl --unix-socket /var/run/docker.sock http://x/",
        "ssh -nNT -L 2375:/var/run/docker.sock build.test",
        "printf 'Host b\\n  LocalForward 2375 /var/run/docker.sock\\n' > c; ssh -F c b",
        "websocat ws-l:127.0.0.1:8080 unix:/var/run/docker.sock",
        "http POST http+unix://%2Fvar%2Frun%2Fdocker.sock/containers/create",
        "mkdir v; mount --bind /var/run/docker.sock v/s",
        "cp -P /var/run/docker.sock s",
        "python3 -c 'import docker; docker.DockerClient(base_url=\"unix:///run/podman/podman.sock\").ping()'",
        "python3 -c 'import asyncio; asyncio.run(asyncio.open_unix_connection(\"/var/run/docker.sock\"))'",
        "node -e \"new (require('dockerode'))({ socketPath: '/var/run/docker.sock' })\"",
        'php -r \'$s = stream_socket_client("unix:///var/run/docker.sock"); fwrite($s, "x");\'',
        "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => \"/var/run/docker.sock\")'",
        'lua -e \'require"socket.unix"():connect("/var/run/docker.sock")\'',
        "printf 'fn main() { UnixStream::connect(\"/var/run/docker.sock\"); }' > m.rs; rustc m.rs",
        'printf \'package main\\nfunc main() { net.Dial("unix", "/var/run/docker.sock") }\' > m.go; go run m.go',
        "printf 'package main\\nfunc main() { New(\"unix:///var/run/docker.sock\") }' > m.go; go build m.go",
        "printf 'all:\\n\\tnc -U /var/run/docker.sock\\n' > Makefile; make",
    ],
)
def test_an_engine_is_reached_by_whatever_client(command: str) -> None:
    assert levels(command).get("container.socket") == "ask-once"


@pytest.mark.parametrize(
    "command",
    [
        "python3 -c 'import docker; docker.from_env().containers.run(\"x\")'",
        "node -e \"require('net').connect({path: '/var/run/' + 'docker.sock'})\"",
        'ruby -rsocket -e \'UNIXSocket.new("/var/run/do" + "cker.sock").write("x")\'',
        "python3 -c 'import dbus; dbus.SessionBus()'",
    ],
)
def test_a_client_that_is_not_followed_is_asked_about(command: str) -> None:
    assert levels(command).get("opaque.code") == "ask-once"


@pytest.mark.parametrize(
    ("command", "key", "level"),
    [
        ("DOCKER_HOST=unix:///run/podman/podman.sock make", "container.socket", "ask"),
        ("export DOCKER_HOST=unix:///run/user/1000/docker.sock", "container.socket", "ask"),
        ("busctl --address=unix:path=/run/user/1000/bus list", "service.socket", "ask-once"),
        ("dbus-send --address=unix:path=/run/dbus/system_bus_socket,guid=1 x", "service.socket", "ask-once"),
        ("nc -U /run/./user//1000/bus", "service.socket", "ask-once"),
        ("http http+unix://%2Frun%2Fuser%2F1000%2Fbus/x", "service.socket", "ask-once"),
        ("nc -U /run/user/$(id -u)/bus", "service.socket", "ask-once"),
        ("docker run -v /run/user/1000/bus:/run/user/1000/bus x", "service.socket", "ask-once"),
        ("socat - UNIX-CONNECT:/run/systemd/private", "service.socket", "ask-once"),
        ("SSH_AUTH_SOCK=/tmp/ssh-xx/agent.1 ssh-add -L", "secret.agent", "ask"),
        ("rsync -e 'ssh -o IdentityAgent=/run/user/1000/keyring/ssh' a h:b", "secret.agent", "ask"),
        ("printf 'Host b\\n  IdentityAgent ~/.1password/agent.sock\\n' > c; ssh -F c b", "secret.agent", "ask"),
        ("nc -U ~/.gnupg/S.gpg-agent", "secret.agent", "ask"),
        ("nc -U /tmp/tmux-1000/default", "shell.attach", "ask-once"),
        ("cd /tmp/tmux-1000 && nc -U default", "shell.attach", "ask-once"),
        ("socat - UNIX-CONNECT:/run/screen/S-dev/12.pts", "shell.attach", "ask-once"),
        ("nc -U /run/user/1000/toolcrib-console-1000/gateway", "self.socket", "block"),
        ("cd /run/user/1000/toolcrib-console-1000 && nc -U gateway", "self.socket", "block"),
        ("chatter --socket /tmp/toolcrib-console-1000/gateway", "self.socket", "ask-once"),
        ("curl --unix-socket /run/app/control.sock http://x/stop", "socket.other", "ask"),
        ("curl --abstract-unix-socket control http://x/stop", "socket.other", "ask"),
        ("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"/run/app/x\")'", "socket.other", "ask"),
    ],
)
def test_other_sockets_are_judged_by_what_is_behind_them(command: str, key: str, level: str) -> None:
    assert levels(command).get(key) == level


@pytest.mark.parametrize(
    "command",
    [
        "docker ps",
        "docker -H unix:///var/run/docker.sock ps",
        "DOCKER_HOST=unix:///run/user/1000/docker.sock docker compose ps",
        "curl --unix-socket ./dev.sock http://x/health",
        "curl --unix-socket /tmp/dev/app.sock http://x/health",
        "docker exec web curl --unix-socket /run/app.sock http://x/health",
        "psql -h /var/run/postgresql -c 'SELECT 1'",
        "nc -U /run/postgresql/.s.PGSQL.5432",
        "mysql -S /var/run/mysqld/mysqld.sock -e 'SELECT 1'",
        "redis-cli -s /run/redis/redis.sock ping",
        "test -S /var/run/docker.sock && ls -l /run/docker.sock",
        "[ -S /var/run/docker.sock ] || echo no engine at /var/run/docker.sock",
        "stat /run/user/1000/bus; readlink -f /var/run/docker.sock",
        "lsof /var/run/docker.sock; ss -xl src /run/docker.sock",
        'echo "$SSH_AUTH_SOCK"; ssh-add -l',
        'eval "$(ssh-agent -s)"',
        "grep -rn /var/run/docker.sock . | head",
        "git log -S /var/run/docker.sock && git commit -m 'Mount /var/run/docker.sock'",
        "gh pr create --title sockets --body 'mounts /var/run/docker.sock'",
        "sed -i 's#/var/run/docker.sock#/run/docker.sock#' compose.yml",
        "echo '- /var/run/docker.sock:/var/run/docker.sock' >> compose.yml",
        'python3 -c \'print(open("a").read().replace("x", "/var/run/docker.sock:/var/run/docker.sock"))\'',
        "python3 src/ssh-utils/agent.py && bash ~/.tmux/plugins/tmux-resurrect/save.sh",
        "systemctl --user status; systemctl --user start podman.socket",
        "busctl list; tmux ls",
        "gunicorn --bind unix:./app.sock app:app",
        "nginx -t -c $PWD/nginx.conf",
        "DISPLAY=:0 WAYLAND_DISPLAY=wayland-0 xclip -o",
        "socat - /dev/ttyUSB0,raw",
        "socat UNIX-LISTEN:./app.sock,fork TCP:localhost:8080",
        "node -e \"require('net').connect(3000, 'localhost')\"",
        "S=/var/run/docker.sock; echo $S",
        "cp toolcrib-console-notes notes; ls /run/user/1000/toolcrib-console-1000",
        "npx ts-node scripts/docker.sock.ts",
    ],
)
def test_what_stands_beside_sockets_is_free(command: str) -> None:
    assert not levels(command)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("SSH_AUTH_SOCK=/tmp/ssh-xx/agent.1 ssh-add -L", "/tmp/ssh-xx/agent.1"),
        ("DOCKER_HOST=unix:///run/podman/podman.sock make", "/run/podman/podman.sock"),
        ("SSH_AUTH_SOCK=/tmp/ssh-$X/agent.1 ssh-add -L", "?"),
        ("curl --unix-socket $X http://x/", "?"),
        ("curl --unix-socket /run/app/x.sock http://x/", "/run/app/x.sock"),
    ],
)
def test_a_grant_is_bound_to_the_socket(command: str, path: str) -> None:
    """No grant covers a socket with an unknown path."""
    (finding,) = examine(command, f"{HOME}/project", None, Places(), Setting(home=HOME)).findings
    assert finding.paths == (path,)
