"""Finds the environment variable that httpx reads and can't use, and states why."""

from __future__ import annotations

import os
import re
import ssl

_PROXIES = tuple(name for each in ("http_proxy", "https_proxy", "all_proxy") for name in (each, each.upper()))
_SOCKS = ("socks5://", "socks5h://")


def unusable_setting(error: Exception) -> str:
    """Return a sentence about the variable that prevents making a client: its name, its value, and what to do.

    ``error`` is the exception of the attempt. A user name and a password in the value are not shown. If no such variable is
    found, the sentence states the error.
    """
    if isinstance(error, OSError):
        found = _bad_file()
    else:
        found = next((name for name in _PROXIES if _is_bad_proxy(os.environ.get(name, ""))), "")
        found = found or next((name for name in ("no_proxy", "NO_PROXY") if os.environ.get(name)), "")
    why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    if not found:
        return f"the proxy or certificate settings of the environment are invalid: {why}"
    value = os.environ[found]
    hidden = re.sub(r"(^|//)[^/]*@", r"\1***@", value)
    shown = f"{found} is {hidden!r}"
    if isinstance(error, ImportError):
        return f"{shown}, which needs a package that is not installed: pip install 'toolcrib[socks]', or use an HTTP proxy"
    if value.startswith("socks://"):
        return f"{shown}; write socks5:// or socks5h:// instead of socks://"
    advice = {
        "SSL_CERT_FILE": "name a file of certificates (PEM)",
        "SSLKEYLOGFILE": "name a file that can be written",
        "NO_PROXY": "write hosts with commas between them, such as localhost,.example.com",
    }
    return f"{shown}, which can't be used: {why}; {advice.get(found.upper(), _PROXY)}, or unset it"


_PROXY = "write an address, such as http://proxy.example:3128"


def _bad_file() -> str:
    """Return the variable whose file can't be used, or ""."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if authorities := os.environ.get("SSL_CERT_FILE"):
            context.load_verify_locations(cafile=authorities)
    except OSError:
        return "SSL_CERT_FILE"
    return "SSLKEYLOGFILE" if os.environ.get("SSLKEYLOGFILE") else ""


def _is_bad_proxy(value: str) -> bool:
    import httpx

    if not value:
        return False
    if value.startswith(_SOCKS):
        from importlib.util import find_spec

        return find_spec("socksio") is None
    try:
        httpx.Proxy(value if "://" in value else f"http://{value}")
    except (ValueError, httpx.InvalidURL):
        return True
    return False
