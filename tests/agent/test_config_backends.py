"""Errors in a configured backend that can be found at once are reported with their line, not when a session opens it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.config import BrokenConfig, parse_config

_NEAR = ("docker", "containers.c")
_FAR = ("ssh", "hosts.h")


@pytest.mark.parametrize(
    ("kinds", "key", "wrong", "right"),
    [
        (_NEAR, "memory", ["0g", "00m", "''", "2GB", "g"], ["1g", "6144k", "512m"]),
        (_NEAR, "tmpfs", ["0m"], ["64m"]),
        (_NEAR, "cpus", ["0", ".inf", ".nan"], ["0.5", "2"]),
        (
            _NEAR,
            "mounts",
            ["[rel]", "['']", "[/a:b]", "[/a:/b:rx]", "[/a:/b:ro:ro]"],
            ["[/a, ~/b:/b, /c:rw, '/c d:/e:ro']", "[]"],
        ),
        (_NEAR, "env", ["{A B: x}", "{'': x}", "{A=B: x}", "{1A: x}"], ["{A_1: '', b: 'x=y z'}"]),
        (_NEAR, "network", ["''", "host", "container:x"], ["bridge"]),
        (_NEAR, "user", ["a b", "'1:2:3'", "':1'"], ["'1000:1000'", "agent", "''"]),
        (_NEAR, "host", ["/var/run/docker.sock", "unix://rel", "zork://x", "ssh://me@h"], ["unix:///a/b", "tcp://h:2375", "''"]),
        (_FAR, "host", ["a b", "-oX=y", "'a,b'"], ["gpu", "'::1'", "'[::1]:22'", "me@gpu:2222"]),
        (_FAR, "user", ["a b", "a@b", "-l"], ["me", "svc-x.y"]),
        (_FAR, "cwd", ["srv", "./x"], ["/srv", "~/x", "'~'"]),
        (_FAR, "identity_file", ["id_rsa"], ["~/.ssh/id_rsa", "/k"]),
        (_FAR, "known_hosts", ["known"], ["~/k", "none"]),
        (_FAR, "jump", ["'a,,b'", "a b", "',a'"], ["none", "me@a:22, b", "''"]),
        (_FAR, "env", ["{A-B: x}"], ["{AB: x}"]),
    ],
)
def test_a_wrong_value_is_refused_at_its_line(kinds: tuple[str, str], key: str, wrong: list[str], right: list[str]) -> None:
    """``memory: 0g`` would mean no limit at all."""
    for kind in kinds:
        inner = "environments:\n" + "".join(f"{'  ' * (n + 1)}{part}:\n" for n, part in enumerate(kind.split(".")))
        for value in right:
            parse_config(f"{inner}      {key}: {value}\n".encode(), Path("c.yaml"))
        for value in wrong:
            with pytest.raises(BrokenConfig) as caught:
                parse_config(f"{inner}      {key}: {value}\n".encode(), Path("c.yaml"))
            (fault,) = caught.value.faults
            assert (fault.line, fault.key) == (3 + kind.count("."), f"environments.{kind}.{key}"), value
            assert fault.text.startswith("expected "), value
            assert not fault.text.endswith("got a number"), value


def test_hosts_of_the_sandbox_are_rules_of_the_guard() -> None:
    right = (
        "sandbox: {network: hosts, hosts: [a.example, '*.b.example', 'c.example:443', 10.1.2.3, 'localhost:5432', '[::1]:80']}\n"
    )
    assert len(parse_config(right.encode(), Path("c.yaml")).sandbox.hosts) == 6
    for value in ("a b", "localhost", "'*'", "'a.example:0'", "https://a.example", "''"):
        with pytest.raises(BrokenConfig) as caught:
            parse_config(f"sandbox:\n  hosts: [{value}]\n".encode(), Path("c.yaml"))
        (fault,) = caught.value.faults
        assert fault.text.startswith("expected a list of hosts, such as"), value
