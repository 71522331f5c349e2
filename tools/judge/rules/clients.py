"""Rules: deletions by programs that have no rows of their own and look like clients of a service or database."""

from __future__ import annotations

import functools
import re

from toolcrib.contract.regex import Regex
from tools.judge import unlisted
from tools.judge.file_view import Looks
from tools.judge.meaning.value import HOLE, names
from tools.judge.options import path_of
from tools.judge.rules import ALL, family, filed
from tools.judge.table import ActView, Test, rule

_VERB = Regex(
    r"(?:[a-z][a-z0-9]*[-:_])*(?:delete|destroy|drop|purge|wipe|terminate|rm|remove[-_]all)(?:[-:_][a-z0-9]+)*", re.IGNORECASE
)
_STATEMENT = Regex(r"\s*(?:drop|truncate|delete\s+from)\s+\w.*", re.IGNORECASE | re.DOTALL)
_PLACES = frozenset(
    "--project --region --zone --cluster --host --server --url --endpoint --database --profile --namespace --context --env"
    " --tenant --subscription --org".split()
)
"""Options that name a service, account or database."""
_CLIENT = Regex(r".+(?:ctl|cli|db|sql)", re.IGNORECASE)
_VENDORS = names("cbt ccloud nebius ovh sf sfdx stackit")
_OTHER_VERBS = names("get list ls show describe create add search find logs help")


@functools.lru_cache(maxsize=512)
def _is_stranger(name: str) -> bool:
    """Return whether no row and no table has the program. False for a path, because the judge reads that file's code."""
    if not name or "/" in name or HOLE in name or name[0] == "@" or path_of(name):
        return False
    return unlisted.is_known(name) is False and all(other not in filed() for other in family(name))


def _deletes(view: ActView) -> bool:
    if not _is_stranger(view.name) or len(view.words) < 2:
        return False
    reading = view.read(_PLACES)
    if not (_CLIENT.fullmatch(view.name) or view.name in _VENDORS or any(one.name in _PLACES for one in reading.options)):
        return False
    words = view.words
    for at in reading.operands[:3]:
        if words[at - 1] in _OTHER_VERBS:
            break
        if at < min(len(words), reading.end) and _VERB.fullmatch(words[at - 1]):
            return True
    return any(_STATEMENT.fullmatch(one) for one in words)


def _command(view: ActView) -> str:
    return f"{view.name} {view.joined}"


def _whole(view: ActView, _looks: Looks, _home: str) -> tuple[tuple[str, str], ...] | None:
    """Return no settings; None for a command with unknown words, because no grant covers it."""
    return None if view.act.fed or HOLE in view.joined else ()


RULES = (
    rule(
        "remote.delete",
        "ask",
        ALL,
        Test(_deletes),
        "deletes something through a service or database client that has no rule of its own",
        at=_command,
        bound=_whole,
        yes=(
            "acmectl volumes delete data-1",
            "acme-cli apps:destroy web --confirm web",
            "acme --project p instances terminate i-1",
            "acme backups purge --all --region eu-1",
            "acmedb drop users --yes",
            'acmesql --host db.test2.org -e "DROP TABLE users"',
            "sfdx org delete web",
        ),
        no=(
            "acmectl volumes list",
            "acmectl help delete",
            "acmectl volumes delete data-1 --dry-run",
            "acme rm a.txt",
            "acmectl get delete web",
            "npm rm left-pad",
            "docker rm web",
            "acme --project p instances list",
        ),
    ),
)
