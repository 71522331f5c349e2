"""Hosts that are allowed, asked about or refused, and the addresses that a name may have."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import pytest

from tools.environments.local.network import hosts
from tools.environments.local.network.hosts import HostPolicy, HostRefusedError, canonical, parse_rule

PUBLIC = "8.8.4.4"
"""No test connects to it: these tests only decide."""


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Return the resolver's table of names. Other names do not exist."""
    table: dict[str, list[str]] = {}

    def getaddrinfo(name: str, port: int, **_options: Any) -> list[Any]:
        if name not in table:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(0, 0, 0, "", (address, port)) for address in table[name]]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return table


def decided(allow: Sequence[str], host: str, port: int = 443) -> list[str] | str:
    """Return the addresses, or the refusal."""

    try:
        return HostPolicy(allow).admit(host, port)
    except HostRefusedError as error:
        return str(error)


@pytest.mark.parametrize(
    ("rule", "host", "port", "allowed"),
    [
        ("example.org", "example.org", 443, True),
        ("example.org", "EXAMPLE.org.", 80, True),
        ("example.org", "www.example.org", 443, False),
        ("example.org", "example.org.evil.net", 443, False),
        ("example.org", "notexample.org", 443, False),
        ("example.org:443", "example.org", 443, True),
        ("example.org:443", "example.org", 22, False),
        ("*.example.org", "a.b.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "notexample.org", 443, False),
        ("*.example.org:443", "a.example.org", 80, False),
        ("bücher.example", "xn--bcher-kva.example", 443, True),
        (PUBLIC, PUBLIC, 443, True),
        (f"{PUBLIC}:53", PUBLIC, 443, False),
        ("10.1.2.3", "10.1.2.3", 443, True),
        ("10.1.2.3", "::ffff:10.1.2.3", 443, True),
        ("10.1.2.3", "10.1.2.4", 443, False),
        ("[fd00::1]:443", "[fd00:0::1]", 443, True),
        ("fd00::1", "fd00::1", 80, True),
        ("localhost:5432", "localhost", 5432, True),
        ("localhost:5432", "127.0.0.1", 5432, True),
        ("127.0.0.1:5432", "db.localhost", 5432, True),
        ("localhost:5432", "localhost", 5433, False),
        ("*.example.org", "localhost", 80, False),
        ("10.1.2.3", "localhost", 80, False),
    ],
)
def test_rules(names: dict[str, list[str]], rule: str, host: str, port: int, allowed: bool) -> None:
    names.update({name: [PUBLIC] for name in ("example.org", "www.example.org", "a.b.example.org", "xn--bcher-kva.example")})
    assert isinstance(decided([rule], host, port), list) is allowed


@pytest.mark.parametrize(
    "rule", ["", "*", "*.", "*.10.0.0.1", "*.localhost:80", "localhost", "127.0.0.1", "a b", "x:0", "x:http", "[::1"]
)
def test_malformed_rules(rule: str) -> None:
    with pytest.raises(ValueError, match="'"):
        parse_rule(rule)


@pytest.mark.parametrize(
    "host",
    ["127.1", "0x7f.1", "2130706433", "017700000001", "127.0.0.53", "0.0" + ".0.0", "0", "::1", "[::]", "::ffff:127.0.0.1"],
)
def test_every_spelling_of_loopback_is_loopback(host: str) -> None:
    assert canonical(host) == "localhost"
    assert "localhost:80 is not an allowed host" in decided(["example.org"], host, 80)


@pytest.mark.parametrize(
    "host",
    ["169.254.169.254", "0xa9fea9fe", "169.254.1.2", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
     "2002:a9fe:a9fe::1", "100.100.100.200", "168.63.129.16", "fd00:ec2::254"],
)  # fmt: skip
def test_metadata_addresses_are_refused_unless_named(host: str) -> None:
    assert "unless the allowed hosts name exactly this address" in decided(["*.org"], host, 80)
    assert decided([canonical(host)], host, 80) == [canonical(host)]


@pytest.mark.parametrize(
    ("address", "refused"),
    [("127.0.0.1", "localhost:5432"), ("10.1.2.3", "10.1.2.3"), ("::1", "localhost:5432"), ("fd00::7", "[fd00::7]")],
)
def test_a_name_that_leads_to_a_private_address_is_that_address(names: dict[str, list[str]], address: str, refused: str) -> None:
    """The owner of an allowed name may let it resolve to any address."""
    names["rebound.example"] = [PUBLIC, address]
    assert f"toolcrib: {refused} is not an allowed host" in decided(["rebound.example"], "rebound.example", 5432)
    both = ["rebound.example", f"[{address}]:5432" if ":" in address else f"{address}:5432"]
    assert decided(both, "rebound.example", 5432) == [PUBLIC, address]


def test_a_host_of_the_users_own_configuration_may_have_a_private_address(names: dict[str, list[str]]) -> None:
    """A mirror in the user's network may use only the first addresses of its name, and no address of this machine."""
    policy = HostPolicy([])
    policy.allow_own("mirror.example")
    names["mirror.example"] = ["10.1.2.3"]
    assert policy.admit("mirror.example", 443) == ["10.1.2.3"]
    for later in ("10.1.2.4", "127.0.0.1", "169.254.169.254"):
        names["mirror.example"] = ["10.1.2.3", later]
        with pytest.raises(HostRefusedError):
            policy.admit("mirror.example", 443)
    for first in ("127.0.0.1", "169.254.169.254"):
        names[f"x{first}.example"] = [first]
        policy.allow_own(f"x{first}.example")
        with pytest.raises(HostRefusedError):
            policy.admit(f"x{first}.example", 443)
    with pytest.raises(HostRefusedError):
        policy.admit("10.1.2.3", 443)


def test_hosts_of_package_managers_do_not_count_as_allowed_ones() -> None:
    policy = HostPolicy([])
    policy.allow_own("packages.example")
    assert not policy.has_hosts()
    policy.allow("packages.example")
    assert policy.has_hosts(), "the user allowed it, too"
    policy.withdraw("packages.example")
    assert not policy.has_hosts()
    assert HostPolicy(["localhost:5432"]).has_hosts()


def test_a_name_that_leads_to_metadata_is_refused(names: dict[str, list[str]]) -> None:
    names["rebound.example"] = ["169.254.169.254"]
    assert "169.254.169.254 is an address of the machine's own" in decided(["rebound.example"], "rebound.example", 80)


def test_an_address_of_this_machine_is_loopback(names: dict[str, list[str]]) -> None:
    """A service of this machine can listen on such an address in any range."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((PUBLIC, 9))  # a datagram socket: nothing is sent
        except OSError:
            pytest.skip("this machine has loopback only")
        own = probe.getsockname()[0]
    names["own.example"] = [own]
    assert "localhost:80 is not an allowed host" in decided(["own.example"], "own.example", 80)
    assert "localhost:80 is not an allowed host" in decided([], own, 80)


def test_a_name_is_resolved_only_once_it_is_allowed(names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A lookup alone sends data to the name's owner."""
    looked_up: list[str] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda name, *_args, **_options: looked_up.append(name) or [])
    assert "is not an allowed host" in decided([], "secret.evil.example")
    assert looked_up == []
    assert decided(["good.example"], "good.example") == []
    assert looked_up == ["good.example"]


def test_a_name_that_is_not_known_is_an_error_of_the_resolver(names: dict[str, list[str]]) -> None:
    with pytest.raises(socket.gaierror):
        decided(["no.example"], "no.example")


def test_a_rule_holds_until_each_allow_is_withdrawn(names: dict[str, list[str]]) -> None:
    names.update({"kept.example": [PUBLIC], "lent.example": [PUBLIC]})

    policy = HostPolicy(["kept.example"])
    for name in ("kept.example", "lent.example", "lent.example"):
        policy.allow(name)
    for name in ("kept.example", "lent.example"):
        policy.withdraw(name)
        assert policy.admit(name, 443) == [PUBLIC]
    policy.withdraw("lent.example")
    with pytest.raises(HostRefusedError):
        policy.admit("lent.example", 443)
    assert [(one.host, one.port) for one in policy.denials(0)] == [("lent.example", 443)]
    assert policy.unknown(["kept.example:80", "lent.example"]) == ["lent.example"]


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        ("Example.org.", "example.org"),
        ("example.org:8443", "example.org"),
        ("127.1:5432", "localhost:5432"),
        ("[::1]:80", "localhost:80"),
        ("10.1.2.3:22", "10.1.2.3"),
        ("fd00::7", "fd00::7"),
    ],
)
def test_a_user_is_asked_about_a_name_or_a_port_of_this_machine(host: str, asked: str) -> None:
    assert hosts.askable(host) == asked


@pytest.mark.parametrize("host", ["*.example.org", "localhost", "169.254.169.254", "fe80::1", "100.100.100.200", "a b", ""])
def test_hosts_that_no_user_is_asked_about(host: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        hosts.askable(host)
