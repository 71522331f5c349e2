"""Facts that a user or a tool mentions once, and the words that a model later searches for them, without knowing the
originals.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

PLACES = ("message", "result", "reply", "memory")
"""Places of a fact: a message of the user, a tool's result, a reply of the model, or a note that the user asks for."""


@dataclass(frozen=True)
class Kind:
    """A kind of fact. ``said`` and ``asked`` contain ``{about}``, and the former ``{value}``. ``queries`` are a model's searches
    in order: the first are its question in short, with words that were never used, the later ones broader.
    """

    name: str
    said: str
    asked: str
    queries: Sequence[str]
    abouts: Sequence[str]
    value: str
    """Form of the fact's value: each ``#`` is a digit, each ``@`` a letter."""


@dataclass(frozen=True)
class Fact:
    number: int
    kind: str
    where: str
    said: str
    asked: str
    queries: Sequence[str]
    value: str


KINDS: Sequence[Kind] = (
    Kind(
        "paraphrased",
        "By the way, the {about} listens on port {value} since it was moved to the new rack.",
        "Which port number does the {about} use these days?",
        ("{about} port number", "{about} port", "{about} listens"),
        ("staging database", "billing gateway", "metrics collector", "mail relay", "license server"),
        "####5",
    ),
    Kind(
        "other words",
        "We agreed with {about} that the deployments are frozen until {value}.",
        "Until when is there a deployment freeze for {about}?",
        ("deployment freeze {about}", "deploy* fr* {about}", "deploy* OR frozen {about}", "{about} frozen"),
        ("Northwind", "Contoso", "Fabrikam", "Tailspin"),
        "week ##",
    ),
    Kind(
        "phrase",
        "The {about} begins at {value}, right after the backups.",
        "When does the {about} begin?",
        ('"{about}" begins', '"{about}"'),
        ("maintenance window", "nightly reindex", "quarterly audit", "key rotation"),
        "#3:#7 UTC",
    ),
    Kind(
        "prefix",
        "For the {about} of the ledger we settled on batches of {value} rows.",
        "How many rows a batch did we settle on when the ledger was {about}ed?",
        ("ledger {about}* batch*", "{about}* rows"),
        ("migrat", "partition", "replicat", "normaliz"),
        "##,##0",
    ),
    Kind(
        "identifier",
        "The bug is in {about}(): it drops the last element when there are {value} of them.",
        "With how many elements does {about} fail?",
        ("{about}", "{about} drops"),
        ("parse_invoice_lines", "retryBudgetSeconds", "Ledger.sync_entries", "flushPendingWrites"),
        "##,#01",
    ),
    Kind(
        "part of an identifier",
        "{about} needs its cache cleared with the flag --{value} or it serves old rows.",
        "With which flag is the cache cleared, in that file about {about}?",
        ("{about} cache flag", "{about} flag"),
        ("billing/ledger_sync.py", "src/orderQueue.ts", "tools/geo-index/build.rs", "app/views/sign_in.html"),
        "purge-@@@@",
    ),
    Kind(
        "Japanese",
        "{about}の暗証番号は{value}です。誰にも言わないでください。",
        "{about}の暗証番号は何番でしたか。",
        ("{about} 暗証番号", "暗証番号"),
        ("会議室", "倉庫の裏口", "サーバー室"),
        "####7",
    ),
    Kind(
        "Chinese",
        "{about}的负责人把备份放在{value}号磁带上。",
        "{about}的备份在哪一卷磁带上?",
        ("{about} 磁带", "{about} 备份"),
        ("生产数据库", "财务系统", "邮件归档"),
        "T-###",
    ),
    Kind(
        "Korean",
        "{about} 서버의 점검 창은 {value}에 열립니다.",
        "{about} 서버 점검은 언제 열리나요?",
        ("{about} 점검", "{about}"),
        ("결제", "인증"),
        "#1시 ##분",
    ),
    Kind(
        "accents",
        "Frau {about} aus Zürich hat die Größe des Pakets auf {value} Bytes begrenzt.",
        "Which limit for packets did {about} of Zurich set?",
        ("{about} Zurich limit", "{about} zurich", "{about} grosse*"),
        ("Müller", "Öztürk", "Jäggi"),
        "##,##7",
    ),
    Kind(
        "ticket",
        "{about} is done: the fix went out with build {value}.",
        "In which build did we fix {about}?",
        ("{about} build", "{about} fix"),
        ("INC-20931", "OPS-4417", "SEC-118"),
        "7.##.###",
    ),
)


def facts(count: int, chance: random.Random) -> list[Fact]:
    """Return ``count`` facts, of all kinds and places as evenly as possible; no two share their subject or value."""
    made: list[Fact] = []
    for number, (kind, about) in zip(range(count), _abouts(), strict=False):
        value = _value(kind.value, chance)
        while any(value in other.said for other in made):
            value = _value(kind.value, chance)
        queries = tuple(query.format(about=_as_asked(about)) for query in kind.queries)
        said, asked = kind.said.format(about=_as_said(kind, about), value=value), kind.asked.format(about=_as_asked(about))
        made.append(Fact(number, kind.name, PLACES[number % len(PLACES)], said, asked, queries, value))
    return made


def _abouts() -> Iterator[tuple[Kind, str]]:
    """Yield each kind's first thing, then each kind's second; after the last of all there are numbered ones."""
    for place in range(1_000):
        for kind in KINDS:
            names = kind.abouts
            number = place // len(names)
            yield kind, names[place % len(names)] + (f" {number + 1}" if number else "")


def _as_said(kind: Kind, about: str) -> str:
    return f"{about}ion" if kind.name == "prefix" else about


def _as_asked(about: str) -> str:
    """Return the name that a user who half remembers it would use: for a file its name in words."""
    return {
        "billing/ledger_sync.py": "ledger sync",
        "src/orderQueue.ts": "order queue",
        "tools/geo-index/build.rs": "geo-index",
        "app/views/sign_in.html": "sign_in",
    }.get(about, about)


def _value(form: str, chance: random.Random) -> str:
    letters = {"#": "123456789", "@": "bcdfghjkmpqrstvwxz"}
    return "".join(chance.choice(letters[sign]) if sign in letters else sign for sign in form)
