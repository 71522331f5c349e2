"""Requirements of figures. Missing ones are reported before anything is measured."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_INFRA = Path(__file__).parents[1] / "tests" / "infra"


class Need(NamedTuple):
    """A requirement. ``figures`` names the figures in words; ``lacks`` returns why they can't be measured and how to fix that, or
    "" if they can.
    """

    figures: str
    lacks: Callable[[], str]


def has(extra: str, *modules: str) -> Callable[[], str]:
    """Return a function that checks for the modules of one of our extras."""

    def lacks() -> str:
        gone = [name for name in modules if importlib.util.find_spec(name) is None]
        return f"{' and '.join(gone)} can't be imported: pip install 'toolcrib[{extra}]'" if gone else ""

    return lacks


def runs(script: str, **more: Any) -> Callable[[], str]:
    """Return a function that checks whether a server of tests/infra can run here."""

    def lacks() -> str:
        found = importlib.util.spec_from_file_location(f"benchmarks_infra_{script}", _INFRA / f"{script}.py")
        assert found is not None
        assert found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        return str(module.missing(**more))

    return lacks


def _corpora() -> str:
    folder = os.environ.get("TOOLCRIB_CORPORA", "")
    return "" if folder and Path(folder, "approval").is_dir() else "set TOOLCRIB_CORPORA to the folder of recorded cases"


def _rich() -> str:
    return "" if importlib.util.find_spec("rich") is not None else "rich is not installed: pip install rich"


def all_of(*lacks: Callable[[], str]) -> Callable[[], str]:
    """Return a function that returns the first reason of several checks."""
    return lambda: next((why for one in lacks if (why := one())), "")


PLATFORMS: Mapping[str, Callable[[], str]] = {
    "xmpp": all_of(has("xmpp", "slixmpp"), runs("prosody")),
    "irc": all_of(has("irc", "irc"), runs("ngircd")),
    "discord": has("discord", "discord", "aiohttp"),
    "slack": has("slack", "slack_bolt", "aiohttp"),
    "email": all_of(has("email", "aioimaplib", "aiosmtplib"), runs("mail")),
}
_POSTGRES = all_of(has("postgres", "psycopg"), runs("postgres"))
NEEDS: Mapping[str, Sequence[Need]] = {
    "judge": [Need("all its figures", _corpora)],
    "places": [Need("all its figures", all_of(runs("dockerd"), runs("sshd", far=False)))],
    "processes": [Need("all its figures", all_of(runs("dockerd"), runs("sshd", far=False)))],
    "pty": [Need("all its figures", all_of(runs("dockerd"), runs("sshd", far=False)))],
    "mcp": [Need("all its figures", has("mcp", "mcp"))],
    "park": [Need("the figures of PostgreSQL (park.resume_postgres)", _POSTGRES)],
    "store": [Need("the figures of PostgreSQL (store.append_postgres, store.blocking_postgres)", _POSTGRES)],
    "face": [Need("face.render", _rich)],
    "gateway": [
        Need("the figures of Matrix (gateway.chats_matrix, gateway.overhead)", all_of(has("matrix", "nio"), runs("synapse")))
    ],
    "platforms": [Need(f"platforms.echo_{name}", lacks) for name, lacks in PLATFORMS.items()],
}


def left_out(groups: Iterable[str]) -> list[str]:
    """Return a line for each part of the groups that can't be measured here, with the way to fix that."""
    needs = [(group, need, need.lacks()) for group in groups for need in NEEDS.get(group, ())]
    return [f"benchmarks {group}: {need.figures} will be skipped: {why}" for group, need, why in needs if why]
