"""Send mail by SMTP to users, each with a copy to the bot's own mailbox that later proves that the mail was sent."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ssl import SSLError
from typing import TYPE_CHECKING, Any

from toolcrib import ConfigError, ToolcribError
from toolcrib.chat import NotSent
from toolcrib.contract.dataclass import dataclass
from toolcrib.platforms import Trust

if TYPE_CHECKING:
    from aiosmtplib import SMTP

_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class SmtpAccount:
    """SMTP server for our mail, and our login there. Without ``is_tls``, it must offer STARTTLS, or be on this machine."""

    host: str
    port: int
    is_tls: bool
    is_local: bool
    user: str
    password: str
    trust: Trust


@asynccontextmanager
async def _connected(account: SmtpAccount) -> AsyncIterator[SMTP]:
    """Open a connection that may submit mail. To another machine only a greeting is sent before TLS is active. Raises ConfigError
    for a TLS problem, the library's exceptions, and OSError.
    """
    from aiosmtplib import SMTP, SMTPException

    trust, starts_tls = account.trust, not (account.is_tls or account.is_local)
    context = await trust.context() if account.is_tls or starts_tls else None
    where: dict[str, Any] = {"hostname": account.host, "port": account.port, "tls_context": context}
    client = SMTP(**where, use_tls=account.is_tls, start_tls=False, timeout=_SECONDS)
    try:
        try:
            await client.connect()
            await client.ehlo()
            if starts_tls and not client.supports_extension("starttls"):
                raise ConfigError("the SMTP server offers no STARTTLS; if its port expects TLS from the start, use smtps://")
            if starts_tls:
                await client.starttls()
                await client.ehlo()
        except (SMTPException, OSError) as error:
            if said := trust.problem(error, "smtp_url"):
                raise ConfigError(f"SMTP: {said}") from error
            raise
        if client.supports_extension("auth"):
            await client.login(account.user, account.password)
        yield client
    finally:
        with contextlib.suppress(SMTPException, OSError):
            await client.quit(timeout=2.0)
        client.close()


async def check_account(account: SmtpAccount) -> None:
    """Check that the server accepts our connection and login. Raises ConfigError, ToolcribError."""
    from aiosmtplib import SMTPAuthenticationError, SMTPException

    try:
        async with _connected(account):
            return
    except SMTPAuthenticationError as error:
        raise ConfigError(
            "the SMTP server refuses the user or the password: correct EMAIL_PASSWORD, or platforms.email.settings.user"
        ) from error
    except (SMTPException, OSError) as error:
        tls = next((one for one in (error, error.__cause__) if isinstance(one, SSLError)), None)
        why = type(error).__name__ if tls is None else f"TLS failed: {tls.reason}"
        raise ToolcribError(f"the SMTP server failed: {why}") from error


async def submit(account: SmtpAccount, ours: str, to: str, raw: bytes) -> None:
    """Submit a mail to a user and, in the same transaction, a copy to us unless the server refuses it. Raises NotSent."""
    from aiosmtplib import SMTPException, SMTPResponseException

    is_told = is_in_doubt = False
    try:
        async with _connected(account) as client:
            await client.mail(ours)
            is_told = True
            await client.rcpt(to)
            with contextlib.suppress(SMTPResponseException):  # without a copy the proof is weaker; send the mail anyway
                await client.rcpt(ours)
            is_in_doubt = True
            await client.data(raw)
    except ConfigError as error:
        raise NotSent(str(error), code="tls") from error
    except SMTPResponseException as error:
        is_final = is_told and error.code >= 500  # an earlier refusal concerns our account, not the mail
        raise NotSent(f"SMTP: {error.message}", for_good=is_final, code=str(error.code)) from error
    except (SMTPException, OSError) as error:
        raise NotSent(f"SMTP: {type(error).__name__}", perhaps_sent=is_in_doubt, code=type(error).__name__) from error
