"""TLS of adapters: trusted certificates, and messages about a server whose certificate is not trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.contract.errors import ConfigError

if TYPE_CHECKING:
    import ssl

    from toolcrib.contract.chat import Host

_OTHER_NAME, _EXPIRED, _NOT_YET = (62, 64), 10, 9
"""OpenSSL's codes (X509_V_ERR) for faults of a certificate."""


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine: ``localhost``, or a loopback address. No other name counts as this machine."""
    import ipaddress

    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Trust:
    """Certificates that an adapter trusts: those of the file in its setting ``ca_file``, or the system's if that is ""."""

    __slots__ = ("_ca_file", "_host")

    def __init__(self, host: Host, ca_file: str) -> None:
        self._host = host
        self._ca_file = ca_file

    async def context(self) -> ssl.SSLContext:
        """Return a context that checks a server's certificate and name. Raises ConfigError for a file that can't be read or has
        no certificate.
        """
        import asyncio
        import ssl

        try:
            return await asyncio.to_thread(ssl.create_default_context, cafile=self._ca_file or None)
        except ssl.SSLError as error:
            raise ConfigError(f"{self._host.names_setting('ca_file')}: expected a file with certificates (PEM)") from error
        except OSError as error:
            raise ConfigError(f"{self._host.names_setting('ca_file')}: the file can't be read: {error.strerror}") from error

    def problem(self, error: BaseException, setting: str) -> str:
        """Return what is wrong with a server's certificate and how to fix it, or "" if neither the error nor one of
        its causes concerns the certificate. ``setting`` is the setting with the server's name.
        """
        import ssl

        found: BaseException | None = error
        while found is not None and not isinstance(found, ssl.SSLCertVerificationError):
            found = found.__cause__ or found.__context__
        if found is None:
            return ""
        said, names = found.verify_message.rstrip("."), self._host.names_setting
        if found.verify_code in _OTHER_NAME:
            return f"the server's certificate is for another name ({said}): use the certificate's name in {names(setting)}"
        if found.verify_code in (_EXPIRED, _NOT_YET):
            return f"the server's certificate is not valid now ({said}): renew it on the server, or set the clock of this machine"
        return (
            f"the server's certificate is not trusted ({said}): name a file with its issuer's certificate in {names('ca_file')}"
        )
