"""Rules for commands that are harmful only together, such as one that packs secrets and one that sends them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex
from tools.judge.findings import Level
from tools.judge.finds import FINDERS, Finds, finds
from tools.judge.folders import under
from tools.judge.meaning.act import Act
from tools.judge.meaning.value import HOLE, Taint, Value
from tools.judge.own_file_names import SECRETS, below, overlap
from tools.judge.rules._hosts import to_others
from tools.judge.rules.exfiltration import leaves, names_secret
from tools.judge.table import ActView
from tools.judge.walks import walk

_FINDERS = frozenset({"pgrep", "pidof", "lsof", "fuser", "jps", "pidstat"})
_LOOKED_UP = Regex(
    r"\$\(.*\b(?:pgrep|pidof|ps|lsof|fuser|jps|ss|netstat|docker|systemctl|jobs)\b|`.*\b(?:pgrep|pidof|ps|lsof)\b", re.DOTALL
)
_NAME = Regex(r"['\"]?\$\{?(\w+)\}?['\"]?")
_PACKERS = frozenset(
    [
        "tar",
        "gtar",
        "bsdtar",
        "zip",
        "7z",
        "7za",
        "cpio",
        "pax",
        "gpg",
        "gpg2",
        "openssl",
        "gzip",
        "bzip2",
        "xz",
        "zstd",
        "rar",
        "ar",
        "dump",
        "rsync",
        "age",
        "find",
        "fd",
        "fdfind",
        "ls",
        "dd",
        "secret-tool",
        "printenv",
        "git",
        "pass",
        "op",
        "security",
        "mysqldump",
        "pg_dump",
        "pg_dumpall",
        "mongodump",
        "sqlite3",
        "redis-cli",
        "kubectl",
        "vault",
        "bw",
        "keepassxc-cli",
        "aws",
        "gcloud",
        "az",
        "gh",
    ]
)
_GIVES_KEYS = Regex(
    r"--export-secret|export-secret|show-secret|dump-keychain|find-\w+-password|\bitem get\b|\bget secrets?\b"
    r"|print-access-token|get-secret-value"
    r"|kv get|auth token|get-access-token|secrets versions access"
)
_PRINTS_SECRET = Regex(
    r"pass (?:show )?[\w./-]+$|aws configure (?:get|export-credentials)|printenv \w*(?:SECRET|TOKEN|PASSW|KEY|CREDENTIAL)\w*"
    r"|secret-tool lookup|git credential fill|security find-",
    re.IGNORECASE,
)
"""Commands that print a key or a password. It includes the program's name, because the words mean other things elsewhere."""
_SENDERS = frozenset(
    [
        "nc",
        "ncat",
        "netcat",
        "socat",
        "ssh",
        "curl",
        "wget",
        "telnet",
        "openssl",
        "mail",
        "mailx",
        "sendmail",
        "mutt",
        "ftp",
        "sftp",
        "http",
        "https",
        "xh",
        "aws",
        "gsutil",
        "cryptcat",
    ]
)
_TAKERS = frozenset({"curl", "wget", "scp", "rsync", "sftp", "rclone", "aws", "gsutil", "http", "https", "xh", "croc", "gist"})
_READS_INPUT = frozenset({"-", "@-", "-T-", "/dev/stdin", "@/dev/stdin"})


class Across(NamedTuple):
    act: Act
    key: str
    level: Level
    why: str


def across(acts: Sequence[Act], home: str = "") -> Iterator[Across]:
    """Yield the effects that several ``acts`` have together and none has alone. ``home`` is absolute; "" if it is unknown."""
    if len(acts) < 2:
        return
    names = {act.name for act in acts}
    if "kill" in names:
        yield from _killed(acts)
    if not names.isdisjoint(_PACKERS) and not names.isdisjoint(_SENDERS):
        yield from _sent(acts, home)
    if not names.isdisjoint(FINDERS) and any(act.fed and act.name in _TAKERS for act in acts):
        yield from _handed_over(acts, home)
    if "git" in names:
        yield from _taken_back(acts)


def _taken_back(acts: Sequence[Act]) -> Iterator[Across]:
    """Yield commands that revert the changes just printed by git: ``git diff | git apply -R``. The changes are then lost."""
    printed = False
    for act in acts:
        if act.name not in ("git", "patch"):
            continue
        words = act.words()
        commits = sum(word[:1] != "-" for word in words) - 1
        if act.name == "git" and "diff" in words:
            printed = not act.redirects and commits < _BETWEEN_COMMITS and not any(".." in word for word in words)
        applies = (act.name == "git" and words[:1] == ["apply"]) or act.name == "patch"
        if applies and printed and act.stdin is not None and _REVERSED.intersection(words):
            yield Across(act, "git.discard", "ask", "throws uncommitted work away")


_REVERSED = frozenset({"-R", "--reverse"})
_BETWEEN_COMMITS = 2
"""Number of operands that make git compare two commits."""


def _killed(acts: Sequence[Act]) -> Iterator[Across]:
    looked_up = False
    from_lists: dict[str, bool] = {}
    for act in acts:
        if act.name in _FINDERS:
            looked_up = True
        for name, given in act.environment.items():
            if not act.argv:
                from_lists[name] = HOLE in given.text and _LOOKED_UP.search(given.shown) is not None
        if act.name == "kill" and not any(word in ("-0", "-l", "-L") for word in act.words()):
            for given in act.argv[1:]:
                match = _NAME.fullmatch(given.shown) if HOLE in given.text else None
                if match is not None and from_lists.get(match[1], looked_up):
                    yield Across(act, "process.kill-list", "ask", "kills a list of processes that is only known when it runs")


def _sent(acts: Sequence[Act], home: str) -> Iterator[Across]:
    packed = False
    for act in acts:
        if act.name in _PACKERS and not act.place:
            packed = (
                packed
                or any(names_secret(given) for given in act.argv[1:])
                or _from_within(act, home)
                or _GIVES_KEYS.search(" ".join(act.words())) is not None
                or _PRINTS_SECRET.match(" ".join((act.name, *act.words()))) is not None
            )
        if (
            packed
            and act.name in _SENDERS
            and act.stdin is not None
            and act.stdin.taint & Taint.UNKNOWN
            and _reads(act)
            and to_others(ActView(act))
        ):
            yield Across(act, "net.exfiltration", "ask-once", "sends secrets off the machine")


def _from_within(act: Act, home: str) -> bool:
    """Return whether the command reads secrets that no word names: ``cd ~/.ssh; tar c .``, ``find ~/.config``."""
    if act.name in FINDERS:
        return _finds_secrets(act, home)
    return any(value.text in (".", "./", "*") for value in act.argv[1:]) and any(
        names_secret(Value(f"{cwd}/")) for cwd in act.cwds if cwd.count("/") > 2
    )


def _finds_secrets(act: Act, home: str) -> bool:
    if home and _goes_over_secrets(act, home):
        return True
    found = walk(act)
    if any(names_secret(one) or one.text.startswith("id_") for one in found.names):
        return True
    every = not found.names
    return any(
        (every and start.endswith("/.config")) or (names_secret(Value(start)) and (every or start.count("/") > 2))
        for start in found.starts
    )


def _goes_over_secrets(act: Act, home: str) -> bool:
    """Return whether a walk from ``home``, or from a folder above it, may list one of the key files in SECRETS."""
    found = finds(act, home)
    return found is not None and any(
        under(home, start) and len(below(path, start)) <= found.depth and _fits(found, path, start)
        for start in found.starts
        for path in (f"{home}/{name}" for name in SECRETS)
    )


def _fits(found: Finds, path: str, start: str) -> bool:
    if not found.hidden and any(part[:1] == "." for part in below(path, start)):
        return False
    name = path.rpartition("/")[2]
    return any(all(overlap(one.pattern, path if one.whole else name) for one in choice) for choice in found.choices)


def _handed_over(acts: Sequence[Act], home: str) -> Iterator[Across]:
    """Yield the commands that send secret files found by another command: ``find ~ -name id_rsa -exec scp {} x@h: \\;``."""
    found = False
    for act in acts:
        if act.name in FINDERS and not act.place:
            found = found or _finds_secrets(act, home)
        elif found and act.fed and act.name in _TAKERS and any(HOLE in word for word in act.words()):
            view = ActView(act)
            out = leaves(view) if act.name in ("scp", "rsync", "rclone", "aws", "gsutil", "sftp") else to_others(view)
            if out:
                yield Across(act, "net.exfiltration", "ask-once", "sends secrets off the machine")


def _reads(act: Act) -> bool:
    if act.name not in ("curl", "wget", "http", "https", "xh", "aws", "gsutil"):
        return True
    return any(word in _READS_INPUT or word.endswith(("@-", "=-", "<-", "@/dev/stdin")) for word in act.words()) or act.name in (
        "http",
        "https",
        "xh",
    )
