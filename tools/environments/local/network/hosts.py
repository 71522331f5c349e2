"""Decide about hosts: which are allowed, which a user can be asked about, and which addresses a name may resolve to."""

from __future__ import annotations

import functools
import ipaddress
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence

from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

LOOPBACK = "localhost"
"""Name that stands for all addresses of this machine, loopback or not. They are allowed port by port."""
_NAME = Regex(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*")
_NUMERIC = Regex(r"(?:0x[0-9a-f]+|\d+)(?:\.(?:0x[0-9a-f]+|\d+)){0,3}")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_METADATA = frozenset(
    map(ipaddress.ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"))
)
"""Addresses outside the link-local ranges where clouds serve credentials to the machine."""
_ADDRESSES = 4
"""Number of a name's addresses to try."""
_KEPT = 1000


class DeniedHost(NamedTuple):
    """A refused connection. ``when`` is a ``time.time()`` value; ``why`` is the sentence its client got."""

    host: str
    port: int
    when: float
    why: str


class HostRefusedError(ToolcribError):
    """A connection to a host was refused. The text is sent to the client."""


class HostPolicy:
    """Hosts that a sandbox may reach. Others are refused.

    A rule is ``example.org`` (all ports), ``example.org:443``, ``*.example.org`` (subdomains, not the domain itself), an address
    or ``[address]:port``. A loopback service is ``localhost:PORT``; no other rule allows one. Link-local and metadata addresses
    are refused unless a rule names the address. Threads may share a policy.
    """

    def __init__(self, allow: Sequence[str]) -> None:
        self._rules = Counter(map(parse_rule, allow))
        self._changing = threading.Lock()
        self._denied: deque[DeniedHost] = deque(maxlen=_KEPT)
        self._own: dict[str, frozenset[Address] | None] = {}
        self._managers: Counter[tuple[str, int | None]] = Counter()
        self.learn: Callable[[], None] | None = None
        """Begins to add the hosts of package managers. It is called once, for the first host that no rule allows."""
        self.learned = threading.Event()
        """Set when all hosts of package managers were added; connections to unknown hosts wait for that."""
        self.learned.set()

    def allow(self, rule: str) -> None:
        """Add ``rule``. Raises ValueError if it is malformed."""
        with self._changing:
            self._rules = self._rules + Counter([parse_rule(rule)])

    def allow_own(self, rule: str) -> None:
        """Add a rule for a host in the user's own configuration. The private addresses that its name has at its first
        lookup are allowed too.
        """
        with self._changing:
            self._managers[parse_rule(rule)] += 1
        self.allow(rule)
        self._own.setdefault(parse_rule(rule)[0], None)

    def withdraw(self, rule: str) -> None:
        """Withdraw one ``allow`` of the rule. The rule holds until every ``allow`` is withdrawn."""
        with self._changing:
            self._rules = self._rules - Counter([parse_rule(rule)])

    def has_hosts(self) -> bool:
        """Return whether a rule allows a host that ``allow_own`` did not add."""
        with self._changing:
            return bool(self._rules - self._managers)

    def unknown(self, rules: Sequence[str]) -> list[str]:
        """Return the rules whose host is not allowed; hosts of package managers count as allowed."""
        found = [rule for rule in rules if not self._allows(*parse_rule(rule))]
        if found:
            self._learned()
        return [rule for rule in found if not self._allows(*parse_rule(rule))]

    def _learned(self) -> None:
        with self._changing:
            learn, self.learn = self.learn, None
        if learn is not None:
            learn()
        self.learned.wait()

    def loopback_ports(self) -> list[int]:
        """Return the allowed ports of this machine's loopback."""
        return [port for host, port in self._rules if host == LOOPBACK and port is not None]

    def denials(self, since: float) -> list[DeniedHost]:
        """Return the connections refused at ``since`` or later, oldest first; at most the last 1,000."""
        return [denied for denied in list(self._denied) if denied.when >= since]

    def admit(self, host: str, port: int) -> list[str]:
        """Return the checked addresses to connect to. Raises HostRefusedError; OSError if the name has none."""
        try:
            name = canonical(host)
        except ValueError as error:
            raise self._refused(host, port, f"toolcrib: {error}") from None
        if name == LOOPBACK:
            self._decide(LOOPBACK, port)
            return ["127.0.0.1", "::1"]
        if (literal := as_address(name)) is not None:
            self._decide_address(literal, port)
            return [name]
        # A name is resolved only after it is allowed: a lookup alone can carry data to the name's owner.
        self._decide(name, port)
        found = _resolve(name, port)
        private = {each for each in found if not each.is_global or each.is_multicast or _is_this_machine(each)}
        first = self._own.get(name, frozenset())
        if first is None:  # first lookup, such as of a mirror in the user's network; later addresses get no exception
            first = frozenset(each for each in private if not is_of_the_network(each) and not _is_loopback(each))
            self._own[name] = first
        for address in found[:_ADDRESSES]:
            if address in private - first:
                self._decide_address(address, port)
        return [str(address) for address in found[:_ADDRESSES]]

    def _decide_address(self, address: Address, port: int) -> None:
        if _is_loopback(address):
            self._decide(LOOPBACK, port)
        elif is_of_the_network(address) and not self._allows(str(address), port):
            raise self._refused(str(address), port, f"toolcrib: {address} is an address of the machine's own network services;"
                                " it is refused unless the allowed hosts name exactly this address")  # fmt: skip
        else:
            self._decide(str(address), port)

    def _decide(self, name: str, port: int) -> None:
        if self._allows(name, port):
            return
        self._learned()
        if self._allows(name, port):
            return
        shown = f"{name}:{port}" if name == LOOPBACK else f"[{name}]" if ":" in name else name
        own = "; nothing in this session listens on that port" if name == LOOPBACK else ""
        raise self._refused(name, port, f"toolcrib: {shown} is not an allowed host; ask the user to allow it,"
                            f" or to run the command outside the sandbox{own}")  # fmt: skip

    def _allows(self, name: str, port: int | None) -> bool:
        if not self._rules.keys().isdisjoint({(name, port), (name, None)}):
            return True
        if as_address(name) is not None or name == LOOPBACK:
            return False
        labels = name.split(".")
        parents = [".".join(["*", *labels[at:]]) for at in range(1, len(labels))]
        return any((parent, each) in self._rules for parent in parents for each in (port, None))

    def _refused(self, host: str, port: int, why: str) -> HostRefusedError:
        self._denied.append(DeniedHost(host, port, time.time(), why))
        return HostRefusedError(why)


def parse_rule(rule: str) -> tuple[str, int | None]:
    """Return the host and the port of a rule, None for all ports. Raises ValueError with advice."""
    host, port = split_port(rule.strip())
    if port == 0:
        raise ValueError(f"{rule!r} has no port between 1 and 65535")
    wild = host.startswith("*.")
    name = canonical(host[2:] if wild else host)
    if wild and (as_address(name) is not None or name == LOOPBACK):
        raise ValueError(f"{rule!r} is not a rule: *. must come before the name of a domain")
    if name == LOOPBACK and port is None:
        raise ValueError(f"{rule!r} needs a port: services of this machine are allowed one by one, such as {LOOPBACK}:5432")
    return f"*.{name}" if wild else name, port


def askable(host: str) -> str:
    """Return the rule to ask the user about if a command needs ``host``: the name for all ports, or a port of localhost.

    Raises ValueError with the reason if ``host`` cannot be asked about.
    """
    name, port = parse_rule(host)
    if name.startswith("*."):
        raise ValueError(f"{host!r} matches many hosts: name the one that the command needs")
    if (address := as_address(name)) is not None and is_of_the_network(address):
        raise ValueError(f"{name} is an address of the machine's own network services: only sandbox.hosts can allow it")
    return f"{name}:{port}" if name == LOOPBACK else name


def is_of_the_network(address: Address) -> bool:
    """Return True for an address of the network's own services for this machine, such as a cloud's credentials."""
    return address.is_link_local or address in _METADATA


def split_port(text: str) -> tuple[str, int | None]:
    """Split ``host:port`` and ``[address]:port``. Port 0: invalid; None: missing. Raises ValueError for unpaired brackets."""
    if text.count(":") > 1 and not text.startswith("["):
        return text, None
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if text.startswith("[") != host.endswith("]") and colon:
        raise ValueError(f"{text!r} is not a host: write an IPv6 address with a port as [::1]:443")
    if not colon:
        return text, None
    number = int(port) if port.isascii() and port.isdigit() and len(port) < 6 else 0
    return host, number if number < 65536 else 0


@functools.lru_cache(maxsize=1024)
def canonical(host: str) -> str:
    """Return ``host`` in canonical form: lower case, addresses in their shortest form, loopback as "localhost".

    Raises ValueError if it is not a host name or address.
    """
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    lowered = bare.lower().rstrip(".")
    try:
        address = as_address(lowered.partition("%")[0])
        if address is None and _NUMERIC.fullmatch(lowered):
            address = as_address(socket.inet_ntoa(socket.inet_aton(lowered)))  # 127.1, 0x7f000001: as resolvers read them
        name = lowered if lowered.isascii() else lowered.encode("idna").decode()
    except (OSError, UnicodeError):
        name, address = "", None
    if address is not None:
        return LOOPBACK if address.is_loopback or address.is_unspecified else str(address)
    if len(name) > 253 or not _NAME.fullmatch(name):
        raise ValueError(f"{host[:100]!r} is not a host's name or address")
    return LOOPBACK if name == LOOPBACK or name.endswith(f".{LOOPBACK}") else name


@functools.lru_cache(maxsize=1024)
def as_address(text: str) -> Address | None:
    """Return the address in ``text``, None for a name. An IPv6 address that wraps a non-public IPv4 address counts as the
    latter.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None and not inner.is_global:
            return inner
    return address


def _resolve(name: str, port: int) -> list[Address]:
    found = (as_address(str(entry[4][0]).partition("%")[0]) for entry in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM))
    return list(dict.fromkeys(address for address in found if address is not None))


def _is_loopback(address: Address) -> bool:
    return address.is_loopback or address.is_unspecified or _is_this_machine(address)


def _is_this_machine(address: Address) -> bool:
    """Return True if the address belongs to this machine. The probe, connecting a datagram socket, sends nothing."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as probe:
            probe.connect((str(address), 9))
            return as_address(probe.getsockname()[0]) == address
    except OSError:  # without a route there is no connection either
        return False
