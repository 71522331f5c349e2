"""The gateway's own share of an answer's time on each platform, against a bare bot of the same library that echoes after the same
time.

XMPP, IRC and e-mail are real servers; Discord and Slack are our fakes with the real client libraries.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._gateway_process import child, gateway_of
from benchmarks._needs import PLATFORMS
from benchmarks._platform_stand import BARE, OURS, Stand
from benchmarks._platform_stands import STANDS
from benchmarks.core import CannotMeasureError, Figure, clean_environment
from benchmarks.gateway import serving_model

_ROOT = Path(__file__).parents[1]
_SECONDS = 0.2
"""Seconds that the model, or the bare bot, takes for an answer."""
_ROUNDS, _MAILS = 25, 6
_MOST_SECONDS = 15.0
"""Seconds after which a message counts as not answered."""
_BEGIN_SECONDS, _TRY_SECONDS = 45.0, 2.5
_BARE = {
    "xmpp": "slixmpp bot on the same Prosody",
    "irc": "bot of the irc library on the same ngircd",
    "discord": "discord.py bot on the same fake server",
    "slack": "slack-bolt bot on the same fake server",
    "email": "aioimaplib and aiosmtplib bot on the same Dovecot and OpenSMTPD",
}


def measure(*, quick: bool) -> list[Figure]:
    """Measure platforms.echo_NAME of the platforms whose server and library are available. Raises CannotMeasureError with the
    other figures if one of them could not be measured.
    """
    figures: list[Figure] = []
    failed: list[str] = []
    with serving_model(1) as model:
        for name in [name for name, lacks in PLATFORMS.items() if not lacks()]:
            begun = time.monotonic()
            try:
                figures.append(_echo(name, model, quick=quick))
            except CannotMeasureError as error:
                failed.append(f"{name}: {error}")
                continue
            print(f"platforms.echo_{name} took {time.monotonic() - begun:.0f} s", file=sys.stderr)
    if failed:
        raise CannotMeasureError("; ".join(failed), figures)
    return figures


def _echo(name: str, model: str, *, quick: bool) -> Figure:
    is_mail = name == "email"
    rounds = 2 if quick else _MAILS if is_mail else _ROUNDS
    took = asyncio.run(_asked(name, model, rounds))
    bare, ours = statistics.median(took[BARE]), statistics.median(took[OURS])
    what = f"a bare {_BARE[name]}"
    if is_mail:
        words = f"{what}; measured: ours, from a mail's delivery to its answer's delivery, with a model of {_SECONDS:g} s, p50"
        return Figure("platforms.echo_email", ours, "s", bare, 5.0, "value", words)
    words = f"{what} that echoes after the same time; measured: how much longer ours takes, p50"
    return Figure(f"platforms.echo_{name}", (ours - bare) * 1000, "ms", bare * 1000, 50.0, "value", words)


async def _asked(name: str, model: str, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each answer, by bot. The bots are asked in turns."""
    took: dict[str, list[float]] = {BARE: [], OURS: []}
    with tempfile.TemporaryDirectory(prefix="tc-bench-") as made:
        folder, stand = Path(made), STANDS[name]()
        log = folder / "bot.log"
        async with stand:
            argv = [sys.executable, "-m", "benchmarks._platform_bots", name, *stand.bare]
            with (
                child(argv, _ROOT, clean_environment(), log),
                gateway_of(folder, model, name, stand.platform, stand.secrets, stand.ours_first),
            ):
                for bot, said in ((BARE, log), (OURS, folder / "gateway.log")):
                    await _begun(stand, bot, said)
                for _ in range(rounds):
                    for bot, seconds in took.items():
                        seconds.append(await stand.asks(bot, _SECONDS, _MOST_SECONDS) or _MOST_SECONDS)
    return took


async def _begun(stand: Stand, bot: str, log: Path) -> None:
    """Write until a bot answers: it may not be connected yet, and loads more for its first answer."""
    ends = time.monotonic() + _BEGIN_SECONDS
    while await stand.asks(bot, 0, _TRY_SECONDS) is None:
        if time.monotonic() > ends:
            raise CannotMeasureError(f"the bot ({bot}) never answered: {log.read_text(errors='replace').strip()[-600:]}")
    await stand.asks(bot, 0, _TRY_SECONDS)
