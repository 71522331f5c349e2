"""Addresses among a command's words, and whether the data that it sends stays on this machine."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import HOLE, Value
from tools.judge.table import ActView

_LOCAL = r"(?:(?:[\w-]+\.)*localhost|127(?:\.\d+){1,3}|\[::1\]|::1|0\.0\.0\.0)\.?"
LOCAL_URL = Regex(rf"(?:\w+://)?(?:[^@/?#\\\s]*@)?{_LOCAL}(?::[\d{HOLE}]*)?(?:[/?#].*)?", re.IGNORECASE)
"""An address of this machine. A name of the local network (``.test``, ``.local``, ``.internal``) may be another machine's."""

_ITEMS = frozenset({"http", "https", "xh", "xhs", "httpie"})
_CONNECTS = frozenset({"nc", "ncat", "netcat", "cryptcat", "pwncat", "rcat", "telnet"})
_URL = frozenset({"--url"})
_TO = frozenset({"-connect", "-host"})
_REROUTES = frozenset(
    "-x --proxy --preproxy --socks4 --socks4a --socks5 --socks5-hostname --connect-to --resolve --dns-servers --doh-url -proxy"
    " --expand-url".split()
)
"""Options that may send data to another host although the address names this machine."""
_CONFIGURED = frozenset({"-K", "--config"})
_EXECUTED = frozenset({"-e", "--execute"})
_SOCAT = Regex(r"[a-z][a-z0-9-]*:([^:,]+):.*", re.IGNORECASE)


def to_others(view: ActView) -> bool:
    """Return whether the data that a command sends may leave this machine.

    It may if an option or variable reroutes it (``is_rerouted``), if an address is not local, or if the command has no address.
    """
    if is_rerouted(view):
        return True
    where = addresses(view)
    return not where or not all(_is_local(view, one.text) for one in where)


def is_rerouted(view: ActView) -> bool:
    """Return whether an option or a variable may send the data to another host than its address names."""
    if view.values(_REROUTES) or any(name.lower().endswith("_proxy") for name in view.act.environment):
        return True
    if view.name in ("curl", "curlie", "wget") and view.values(_CONFIGURED):
        return True
    return view.name == "wget" and any("proxy" in one.text for one in view.values(_EXECUTED))


def addresses(view: ActView) -> Sequence[Value]:
    """Return the words that name the addresses that a client connects to."""
    given = view.operands()
    if view.name in _ITEMS:
        return given[1:2] if given and given[0].text.isalpha() and given[0].text.isupper() else given[:1]
    if view.name in _CONNECTS:
        return view.operands(_VALUED)[:1]
    if view.name == "openssl":
        return view.values(_TO)
    if view.name == "socat":
        found = ((one, _SOCAT.match(one.text)) for one in given)
        return [one._replace(text=match[1]) for one, match in found if match is not None and "/" not in match[1]]
    return [*given, *view.values(_URL)]


_VALUED = frozenset("-p -s -w -q -i -I -O -P -T -V -X -x --source --source-port -g -G -m --wait -e -c".split())


def _is_local(view: ActView, address: str) -> bool:
    return LOCAL_URL.fullmatch(address) is not None or (view.name in _ITEMS and re.match(r":(?:\d|/|$)", address) is not None)
