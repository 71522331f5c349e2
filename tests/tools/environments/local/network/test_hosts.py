"""Which hosts are allowed, asked about and refused, and which addresses a name may lead to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

import pytest

from tools.environments.local.network import hosts
from tools.environments.local.network.hosts import HostPolicy, HostRefusedError, canonical, parse_rule

PUBLIC = "8.8.4.4"
"""Never connected to: these tests only decide."""


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Return a table of names by which the resolver answers. It counts nothing else as a name."""
    table: dict[str, list[str]] = {}

    def getaddrinfo(name: str, port: int, **_options: Any) -> list[Any]:
        if name not in table:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(0, 0, 0, "", (address, port)) for address in table[name]]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return table


def decided(allow: Sequence[str], host: str, port: int = 443, ask: Any = None) -> list[str] | str:
    """Return the addresses, or the refusal."""

    async def run() -> list[str] | str:
        try:
            return await HostPolicy(allow, ask, on_loopback=lambda _port: None).admit(host, port)
        except HostRefusedError as error:
            return str(error)

    return asyncio.run(run())


class Asked:
    """A person who allows some things, and what they were asked."""

    def __init__(self, *yes: str) -> None:
        self.yes, self.asked = yes, []

    async def __call__(self, host: str, port: int) -> bool:
        self.asked.append((host, port))
        return host in self.yes


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
    asked = Asked()
    assert "localhost:80 is not an allowed host" in decided(["example.org"], host, 80, asked)
    assert asked.asked == [("localhost", 80)]


@pytest.mark.parametrize(
    "host",
    ["169.254.169.254", "0xa9fea9fe", "169.254.1.2", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
     "2002:a9fe:a9fe::1", "100.100.100.200", "168.63.129.16", "fd00:ec2::254"],
)  # fmt: skip
def test_metadata_addresses_are_refused_without_asking_unless_named(host: str) -> None:
    asked = Asked(canonical(host))
    assert "unless the allowed hosts name exactly this address" in decided(["*.org"], host, 80, asked)
    assert asked.asked == []
    assert decided([canonical(host)], host, 80) == [canonical(host)]


@pytest.mark.parametrize(
    ("address", "asked_about"),
    [("127.0.0.1", "localhost"), ("10.1.2.3", "10.1.2.3"), ("::1", "localhost"), ("fd00::7", "fd00::7")],
)
def test_a_name_that_leads_to_a_private_address_is_that_address(
    names: dict[str, list[str]], address: str, asked_about: str
) -> None:
    """An allowed name's owner may have it resolve to anything."""
    names["rebound.example"] = [PUBLIC, address]
    asked = Asked()
    assert "is not an allowed host" in decided(["rebound.example"], "rebound.example", 5432, asked)
    assert asked.asked == [(asked_about, 5432)]
    both = ["rebound.example", f"[{address}]:5432" if ":" in address else f"{address}:5432"]
    assert decided(both, "rebound.example", 5432) == [PUBLIC, address]


def test_a_name_that_leads_to_metadata_is_refused(names: dict[str, list[str]]) -> None:
    names["rebound.example"] = ["169.254.169.254"]
    assert "169.254.169.254 is an address of the machine's own" in decided(["rebound.example"], "rebound.example", 80, Asked())


def test_an_address_of_this_machine_is_loopback(names: dict[str, list[str]]) -> None:
    """Whatever its range: a service of this machine listens on it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((PUBLIC, 9))  # a datagram socket: nothing is sent
        except OSError:
            pytest.skip("this machine has loopback only")
        own = probe.getsockname()[0]
    names["own.example"] = [own]
    asked = Asked()
    assert "localhost:80 is not an allowed host" in decided(["own.example"], "own.example", 80, asked)
    assert "localhost:80 is not an allowed host" in decided([], own, 80, asked)
    assert asked.asked == [("localhost", 80), ("localhost", 80)]


def test_a_name_is_resolved_only_once_it_is_allowed(names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A lookup alone carries data to the name's owner."""
    looked_up: list[str] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda name, *_args, **_options: looked_up.append(name) or [])
    assert "is not an allowed host" in decided([], "secret.evil.example")
    assert "is not an allowed host" in decided([], "secret.evil.example", ask=Asked())
    assert looked_up == []
    assert decided([], "good.example", ask=Asked("good.example")) == []
    assert looked_up == ["good.example"]


def test_a_name_that_is_not_known_is_an_error_of_the_resolver(names: dict[str, list[str]]) -> None:
    with pytest.raises(socket.gaierror):
        decided(["no.example"], "no.example")


def test_answers_last_and_a_later_allow_overrides_a_refusal(names: dict[str, list[str]]) -> None:
    names.update({"yes.example": [PUBLIC], "no.example": [PUBLIC]})
    asked = Asked("yes.example")

    async def run() -> None:
        policy = HostPolicy([], asked, on_loopback=lambda _port: None)
        for _ in range(3):
            assert await policy.admit("yes.example", 443) == [PUBLIC]
            with pytest.raises(HostRefusedError):
                await policy.admit("no.example", 443)
        assert asked.asked == [("yes.example", 443), ("no.example", 443)]
        assert [(one.host, one.port) for one in policy.denials(0)] == [("no.example", 443)] * 3
        policy.allow("no.example")
        assert await policy.admit("no.example", 22) == [PUBLIC]

    asyncio.run(run())


@pytest.mark.parametrize("begun", [True, False])
def test_few_hosts_are_asked_about_at_once(monkeypatch: pytest.MonkeyPatch, begun: bool) -> None:
    monkeypatch.setattr(hosts, "_ASKS", 3)
    asked = []

    async def never(host: str, port: int) -> bool:
        asked.append(host)
        await asyncio.sleep(600)
        return True

    async def run() -> None:
        policy = HostPolicy([], never, on_loopback=lambda _port: None)
        waiting = [asyncio.ensure_future(policy.admit(f"h{number}.example", 443)) for number in range(3)]
        await asyncio.sleep(0)
        while begun and len(asked) < 3:
            await asyncio.sleep(0)
        with pytest.raises(HostRefusedError):
            await policy.admit("h3.example", 443)
        policy.close()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(answer) for answer in answers] == [HostRefusedError] * 3
        assert asked == (["h0.example", "h1.example", "h2.example"] if begun else [])

    asyncio.run(run())


def test_no_answer_in_time_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "_ANSWER_LIMIT", 0.01)

    async def never(host: str, port: int) -> bool:
        await asyncio.sleep(600)
        return True

    assert "is not an allowed host" in decided([], "slow.example", ask=never)
