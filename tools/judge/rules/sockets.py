"""Rules: sockets of programs that obey their clients. A client of such a socket has the same power as the program behind it.

The path of such a socket counts in words, addresses (``unix://``, ``UNIX-CONNECT:``), variables and code. Programs that only use
the name of a file need no approval, nor do programs whose commands other rules judge (docker, tmux).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.file_view import Looks
from tools.judge.folders import TEMPORARY, under
from tools.judge.meaning.multiplexers import READERS
from tools.judge.meaning.value import HOLE, Value, names
from tools.judge.paths import spelled
from tools.judge.readers import is_plain
from tools.judge.table import ANY, ActView, Test, opt, rule

_RUN = r"/run/user/[^/\s]+"
_END = r"(?![\w.-])"
_NUMBER = r"[^A-Za-z/\s][^/\s]*"
"""A user's number, or an expression for it."""
_SOCKETS: Mapping[str, Regex[str]] = {
    "engine": Regex(
        rf"/(?:(?:docker|podman)[\w.-]*\.sock(?:\.raw)?|(?:containerd|crio|cri-dockerd|buildkitd)\.sock|snapd[\w-]*\.socket"
        rf"|(?:lxd|incus)/unix\.socket|libvirt/(?:[\w-]+-)?sock(?:-\w+)?){_END}"
    ),
    "bus": Regex(
        rf"/system_bus_socket{_END}|/tmp/dbus-\w|/run/systemd/(?:private{_END}|io\.systemd\.)"
        rf"|{_RUN}/(?:(?:bus|at-spi/bus\w*|systemd/private){_END}|dbus-)"
    ),
    "agent": Regex(
        rf"/S\.gpg-agent|/tmp/ssh-[^/\s]+/agent\.|/\.ssh/agent/|1password/(?:t/)?agent\.sock{_END}|/\.bitwarden-ssh-agent\.sock{_END}"
        rf"|{_RUN}/(?:(?:keyring|gcr)/|ssh-agent|openssh_agent)"
    ),
    "multiplexer": Regex(rf"/tmux-{_NUMBER}/[^/\s]|/screens?/S-|/\.screen/\d|/zellij-{_NUMBER}/|{_RUN}/zellij/"),
    "ours": Regex(
        rf"/toolcrib-console-{_NUMBER}|{_RUN}/toolcrib|/tmp/toolcrib-(?:[a-z]+-)?\d+/|/(?:toolcrib\.db-signals|terminal-sockets)/"
    ),
}
"""Kinds of sockets, by a pattern that is searched in paths, words and code."""
_MARKS = ("sock", "/user/", "agent", "dbus", "tmux-", "screen", "zellij", "systemd", "toolcrib", f"{HOLE}/", "%2")
"""Each path that a pattern matches, or may match once its unknown parts are known, contains one of these texts."""
_FOLDERS = ("/run", "/var/run", HOLE, *(f"/tmp/{name}" for name in ("tmux-", "ssh-", "dbus-", "zellij-", "toolcrib-")))  # noqa: S108 - compared, not used
"""Beginnings of folders with sockets of these kinds."""
_OWN_VERBS: Mapping[str, frozenset[str]] = {
    "engine": names(
        "docker docker-compose podman podman-compose nerdctl finch lima buildah buildctl skopeo dockerd containerd buildkitd ctr"
        " crictl lxc incus virsh snap"
    ),
    "agent": names("ssh-agent gpg-agent"),
    "multiplexer": frozenset(READERS),
}
"""Programs, by kind of socket, whose commands other rules judge or that listen on these sockets."""
_LOOKS = names(
    "[ [[ test file find fd fdfind tree git gh glab rg ag ack ugrep sed gsed awk gawk mawk yq printf lsof ss netstat sort less"
    " more bat tee rm unlink chmod chown chgrp touch mkdir rmdir"
)
"""Programs besides the plain readers that connect to no path among their arguments."""
_SETS = names("export declare typeset readonly local setenv")
_CLIENTS = names("curl nc ncat netcat socat @socket")
_SERVERS = Regex(r"/(?:postgresql|pgbouncer|mysqld?|mariadb|redis|memcached)/|/\.s\.PGSQL|/\.X11-unix/|/wayland-\d")
"""Databases and displays, whose clients are judged by the data that they send."""
_ADDRESS = Regex(r"(?:(UNIX|GOPEN)|ABSTRACT)[\w-]*:([^,!]*)", re.IGNORECASE)
_BEFORE, _BEHIND = "=:,\"'`( \t\n", Regex(r"[\s,;\"'`()|]")
"""Characters that may be next to a path, in a word or in code."""
_OURS = frozenset({"ours"})
_ALL_HANDED = frozenset({"engine", "ours"})
_CONNECTS = Regex(
    r"socket|connect|[Cc]lient|[Uu]nix|UNIX|Dial|[Rr]equest|[Ss]ession|__import__|getattr|\beval|\bexec|DBUS_|AUTH_SOCK|DOCKER_HOST"
)
"""Words of code that connects. Code that only writes a path to a file usually lacks them."""


def concerns(view: ActView) -> bool:
    """Return whether one of these rules may apply to a command. This quick check excludes most commands."""
    act, name = view.act, view.name
    if not name or is_plain(name):
        return False
    if name in _LOOKS:
        return name == "git" and "SSH_AUTH_SOCK" in act.environment and bool(_reached(view))
    if name in _CLIENTS:
        return bool(_operands(view) or _reached(view))
    return bool((act.environment or act.code or _is_near(view) or _marked(view.joined)) and _reached(view))


def _marked(text: str) -> bool:
    for mark in _MARKS:  # noqa: SIM110 - any() takes twice as long, and every command gets here
        if mark in text:
            return True
    return False


def _is_near(view: ActView) -> bool:
    """Return whether the command works in a folder of sockets, so that a bare name may be one."""
    return any(cwd.startswith(_FOLDERS) for cwd in view.act.cwds)


def _reached(view: ActView) -> Mapping[str, str]:
    """Return the paths of the sockets that the command names, by kind, or by ``KIND=`` if it may only pass the path on."""
    if view.sockets is None:
        view.sockets = dict(one for one in _named(view) if view.name not in _OWN_VERBS.get(one[0].rstrip("="), ()))
    return view.sockets


def _named(view: ActView) -> Iterator[tuple[str, str]]:
    act = view.act
    near = _is_near(view)
    if view.name not in _LOOKS and (near or _marked(view.joined)):
        scripts = {code.text.text for code in act.code}
        client = view.name in _CLIENTS
        handed = _ALL_HANDED if view.name in _SETS else frozenset() if client else _OURS
        for one in act.argv[1:]:
            if one.text in scripts:
                continue
            if client or ((near or "/" in one.text or "%2" in one.text) and not any(map(str.isspace, one.text))):
                yield from _kinds(one, act.cwds, handed)
    for one in act.environment.values():
        if _marked(one.text):
            yield from _kinds(one, ("",), _ALL_HANDED)
    for code in act.code:
        if code.language != "shell" and _marked(code.text.text) and _CONNECTS.search(code.text.text):
            yield from _kinds(code.text, ("",), _OURS)


def _kinds(given: Value, cwds: Sequence[str], handed: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield (kind, path) of the sockets that a text names. ``cwds``: folders for relative paths; "" for an absolute one."""
    text = given.text.replace("%2F", "/").replace("%2f", "/") if "%2" in given.text else given.text
    if HOLE in text and "XDG_RUNTIME_DIR" in given.shown:
        text = text.replace(HOLE, f"/run/user/{HOLE}", 1)
    for cwd in cwds if text[:1] not in ("/", HOLE) else ("",):
        path = posixpath.normpath(f"{cwd}/{text}" if cwd else text)
        for kind, pattern in _SOCKETS.items() if _marked(path) else ():
            if match := pattern.search(path):
                start = max(path.rfind(mark, 0, match.start()) for mark in _BEFORE) + 1
                yield (f"{kind}=" if kind in handed else kind), _BEHIND.split(path[start:], 1)[0]


# clients of any socket


def _operands(view: ActView) -> list[Value]:
    """Return the sockets that a generic client connects to; ``@NAME`` is an abstract one."""
    name = view.name
    if name == "curl":
        abstract = view.values(frozenset({"--abstract-unix-socket"}))
        return [*view.values(frozenset({"--unix-socket"})), *(one._replace(text=f"@{one.text}") for one in abstract)]
    if name == "socat":
        found = [(one, match) for one in view.act.argv[1:] if (match := _ADDRESS.search(one.text))]
        plain = [one for one in view.act.argv[1:] if one.text[:1] in ("/", ".") and one.text[:5] != "/dev/"]
        return [*plain, *(one._replace(text=match[2] if match[1] else f"@{match[2]}") for one, match in found)]
    if name == "@socket":
        return [one._replace(text=one.text.removeprefix("unix://").replace("\0", "@")) for one in view.act.argv[1:2]]
    return view.operands(_NC_VALUED)[:1] if _BY_PATH(view) else []


_NC_VALUED = names("-w -i -q -p -s -e -c -I -O -X -x -T -V --wait --idle-timeout --delay --output -o --exec --sh-exec --lua-exec")
_BY_PATH = opt("-U --unixsock")


def _led(view: ActView, looks: Looks) -> Iterator[str]:
    """Yield the link targets of a generic client's sockets."""
    for one in _operands(view):
        for path in spelled(one, view.act.cwds):
            yield from looks.links.real(path)


def _seen(kind: str) -> Callable[[ActView, Looks], bool]:
    return lambda view, looks: kind in _reached(view) or any(map(_SOCKETS[kind.rstrip("=")].search, _led(view, looks)))


def _at(kind: str) -> Callable[[ActView], str]:
    return lambda view: _reached(view).get(kind, "")


def _is_strange(view: ActView, looks: Looks) -> bool:
    """Return whether a generic client connects to a socket outside of the workspace that no pattern here matches."""
    strange = [one for one in _operands(view) if not _is_own(view, one, looks) and not _SERVERS.search(one.text)]
    return (
        bool(strange)
        and not _reached(view)
        and not any(pattern.search(path) for path in _led(view, looks) for pattern in _SOCKETS.values())
    )


def _is_own(view: ActView, given: Value, looks: Looks) -> bool:
    """Return whether a socket is the project's own, temporary, or in a container; an abstract one is not."""
    if given.text[:1] == "@":
        return False
    if view.act.place.startswith("container:"):
        return True
    if looks.sees_places:
        return looks.are_inside(view.act, [given])
    return not given.pattern and all(
        HOLE not in path and any(under(path, folder) for folder in (cwd, *TEMPORARY))
        for cwd in view.act.cwds
        for path in spelled(given, [cwd])
    )


def _paths(kind: str) -> Callable[[ActView], list[Value]]:
    return lambda view: [Value(path)] if (path := _reached(view).get(kind)) else []


def _other(view: ActView) -> str:
    return ", ".join(one.for_people() for one in _operands(view))


SOCKETS = "@sockets"
"""Rules with this name are checked for every command that ``concerns`` selects."""

RULES = (
    rule(
        "container.socket",
        "ask-once",
        SOCKETS,
        ANY,
        "reaches the socket of a container engine, which may do anything to the machine",
        seen=_seen("engine"),
        yes=(
            "curl --unix-socket /var/run/docker.sock -X POST http://x/containers/create",
            "socat TCP-LISTEN:2375,fork UNIX-CONNECT:/run/docker.sock",
            "nc -U /run/containerd/containerd.sock",
            "cd /run && nc -U docker.sock",
            "ln -s /var/run/docker.sock s; curl --unix-socket s http://x/",
            "http http+unix://%2Fvar%2Frun%2Fdocker.sock/containers/json",
            "ssh -L 2375:/var/run/docker.sock build.test",
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"/run/podman/podman.sock\")'",
        ),
        no=(
            "test -S /var/run/docker.sock",
            "docker -H unix:///var/run/docker.sock ps",
            "git commit -m 'Mount /var/run/docker.sock'",
            "echo '- /var/run/docker.sock:/var/run/docker.sock' >> compose.yml",
            "curl --unix-socket ./dev.sock http://x/health",
        ),
        dry=False,
    ),
    rule(
        "container.socket",
        "ask",
        SOCKETS,
        ANY,
        "gives programs the socket of a container engine, which may do anything to the machine",
        seen=lambda view, looks: "engine=" in _reached(view),
        at=_at("engine="),
        paths=_paths("engine="),
        yes=("DOCKER_HOST=unix:///run/podman/podman.sock make", "export DOCKER_HOST=unix:///var/run/docker.sock"),
        no=("DOCKER_HOST=unix:///run/podman/podman.sock docker ps", "S=/var/run/docker.sock"),
        dry=False,
    ),
    rule(
        "service.socket",
        "ask-once",
        SOCKETS,
        ANY,
        "reaches the socket of D-Bus or systemd, which starts services and programs",
        seen=_seen("bus"),
        yes=(
            "busctl --address=unix:path=/run/user/1000/bus list",
            "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus gdbus call -e -d x",
            "socat - UNIX-CONNECT:$XDG_RUNTIME_DIR/systemd/private",
            "nc -U /run/dbus/system_bus_socket",
            "curl --abstract-unix-socket /tmp/dbus-aB3 http://x",
        ),
        no=("busctl list", "systemctl --user status", "ls -l /run/user/1000/bus"),
        dry=False,
    ),
    rule(
        "secret.agent",
        "ask",
        SOCKETS,
        ANY,
        "reaches the socket of an agent that holds a user's keys",
        seen=_seen("agent"),
        at=_at("agent"),
        paths=_paths("agent"),
        yes=("SSH_AUTH_SOCK=/tmp/ssh-xx/agent.1 git fetch", "ssh -o IdentityAgent=/run/user/1000/keyring/ssh build.test"),
        no=("ssh-add -l", "git fetch", "echo $SSH_AUTH_SOCK", "ssh-agent -a /run/user/1000/ssh-agent.socket"),
        dry=False,
    ),
    rule(
        "shell.attach",
        "ask-once",
        SOCKETS,
        ANY,
        "reaches the socket of a terminal multiplexer, which types into shells",
        seen=_seen("multiplexer"),
        yes=("nc -U /tmp/tmux-1000/default", "cd /tmp/tmux-1000 && socat - UNIX-CONNECT:default"),
        no=("tmux ls", "ls /tmp/tmux-1000"),
        dry=False,
    ),
    rule(
        "self.socket",
        "block",
        SOCKETS,
        ANY,
        "connects to toolcrib's own socket; only a user may do that",
        seen=_seen("ours"),
        yes=("nc -U /run/user/1000/toolcrib-console-1000/gateway", "socat - UNIX:/tmp/toolcrib-1000/6f1a"),
        no=("ls /run/user/1000/toolcrib-console-1000", "cp notes /tmp/toolcrib-notes"),
        dry=False,
    ),
    rule(
        "self.socket",
        "ask-once",
        SOCKETS,
        ANY,
        "names toolcrib's own socket; only a user may connect to it",
        seen=lambda view, looks: "ours=" in _reached(view),
        yes=("chatter /run/user/1000/toolcrib-console-1000/gateway", "S=/tmp/toolcrib-console-1000/gateway chatter"),
        no="ls /tmp/toolcrib-console-1000",
        dry=False,
    ),
    rule(
        "socket.other",
        "ask",
        SOCKETS,
        Test(lambda view: view.name in _CLIENTS),
        "connects to a program outside the project by its socket; what that program does is unknown",
        seen=_is_strange,
        at=_other,
        paths=_operands,
        yes=("nc -U /run/app/control.sock", "socat - UNIX-CONNECT:/run/app/control.sock", "curl --unix-socket $UNKNOWN http://x"),
        no=("curl --unix-socket ./dev.sock http://x", "nc -U app.sock", "nc -l 80", "nc -U /run/postgresql/.s.PGSQL.5432"),
        dry=False,
    ),
)
