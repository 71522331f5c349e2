"""Programs that only read, and programs that only read with some arguments. Any other program counts as one that may write.

``PLAIN`` programs write nothing, whatever their words. ``CHECKED`` has a test for each of its programs: it gets the program's
words, and returns why the program may write with them, or "". All words of such a program must be known before it runs, because
an unknown one may be an option, or become several words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from toolcrib.contract.regex import Regex
from tools.judge.gitreaders import git
from tools.judge.meaning.value import HOLE, names

Words = Sequence[str]

PLAIN = names(
    "arch basename cal cat cd cksum cmp column comm cut df dir dirname dirs diff du echo egrep exit expand expr false fgrep fmt"
    " fold free getconf getent grep groups head hexdump id join jq ls lsblk lscpu md5sum nl nproc numfmt od paste pgrep popd"
    " printenv ps pushd pwd readlink realpath return rev seq sha1sum sha224sum sha256sum sha384sum sha512sum b2sum sleep stat"
    " strings sum tac tail tr true tsort tty type uname unexpand uptime vdir wc which who whoami break continue base32"
    " base64 : shift times"
)
"""Programs and builtins that no option, operand or variable makes write a file or run something."""

_WRITES: Mapping[str, str] = MappingProxyType(
    {
        name: why
        for why, group in {
            "it deletes files": "rm rmdir unlink shred",
            "it writes files": "cp mv ln touch mkdir mktemp mkfifo install tee dd truncate patch rsync tar unzip",
            "it changes who may use files": "chmod chown chgrp setfacl",
            "it ends processes": "kill pkill killall",
        }.items()
        for name in group.split()
    }
)
"""Effects of well-known programs that are not readers. They are shown to users and do not change the verdict."""
CHANGERS = frozenset(_WRITES) - names("kill pkill killall")
"""Well-known programs that change the files in their words."""

_VERSIONS = names(
    "python python3 node npm npx pnpm yarn deno bun ruby perl php go cargo rustc rustup java javac gcc g++ clang make cmake ninja"
    " docker kubectl terraform git pip pip3 uv pytest ruff mypy bash sh tar curl wget ssh sqlite3 psql"
)
_VERSION = names("--version -V -version")
_SET = Regex(r"[-+][eu]+(?:o)?|pipefail")
_SHOPT = names("-s -u globstar nullglob dotglob nocaseglob extglob failglob")
_READ_OPTIONS = Regex(r"-[rsE]+|-[rsE]*[ndptN]([\s\S]*)")
_NAME = Regex(r"[a-z_][a-z0-9_]*")


def may_write(name: str, words: Words) -> str:
    """Return why the program ``name`` may write with these ``words`` (without its own name); "" if it does not."""
    if name in PLAIN or (name in _VERSIONS and len(words) == 1 and words[0] in _VERSION):
        return ""
    check = CHECKED.get(name)
    if check is None:
        return _WRITES.get(name, "toolcrib does not know whether it writes")
    if any(HOLE in word for word in words):
        return "a word is only known when it runs, and may be an option that writes"
    return check(words)


def is_plain(name: str) -> bool:
    """Return whether the program writes nothing even with unknown words."""
    return name in PLAIN


def _without(shorts: str, *longs: str) -> Callable[[Words], str]:
    """Return a test that refuses the options ``shorts`` (letters), alone or in a cluster, and ``longs``, also abbreviated."""

    def check(words: Words) -> str:
        for word in words:
            name = word.partition("=")[0]
            if word[:2] == "--":
                if len(name) > 2 and any(one.startswith(name) for one in longs):
                    return f"{word} may write or run something"
            elif word[:1] == "-" and not set(shorts).isdisjoint(word[1:]):
                return f"{word} may write or run something"
        return ""

    return check


_FIND = frozenset(("-delete", "-execdir", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf", "-fls"))


def _find(words: Words) -> str:
    """Check the words of find. ``-exec`` passes here, because its command is judged separately."""
    return next((f"{word} changes or runs something" for word in words if word in _FIND), "")


def _one_file(shorts: str, valued: str) -> Callable[[Words], str]:
    """Return a test for a program that writes its second operand.

    It refuses the options ``shorts`` (letters) too. The options ``valued`` (letters) take the next word.
    """
    check = _without(shorts)

    def one(words: Words) -> str:
        count, at = 0, 0
        while at < len(words):
            word = words[at]
            if len(word) == 2 and word[0] == "-" and word[1] in valued:
                at += 2
                continue
            count += word == "-" or word[:1] != "-"
            at += 1
        return check(words) or ("its second file is written" if count > 1 else "")

    return one


_DATE_VALUE = names("-d -r --date --reference")
_DATE = Regex(r"\+.*|-[uR]+|-I\w*|--utc|--universal|--iso-8601(?:=\w+)?|--rfc-3339=\w+|--rfc-email|--date=.*|-d.+|-r.+")


def _date(words: Words) -> str:
    at = 0
    while at < len(words):
        if words[at] in _DATE_VALUE:
            at += 2
            continue
        if _DATE.fullmatch(words[at]) is None:
            return f"{words[at]} may set the clock"
        at += 1
    return ""


def _alone(words: Words) -> str:
    return "with arguments it may write" if words else ""


def _printf(words: Words) -> str:
    return "it may set a variable" if words and words[0].startswith("-v") else ""


def _read(words: Words) -> str:
    left = iter(words)
    for word in left:
        option = _READ_OPTIONS.fullmatch(word)
        if option is not None and option[1] == "":  # its value is the next word
            next(left, "")
        elif option is None and _NAME.fullmatch(word) is None:
            return f"{word} is neither an option that only reads nor a variable with a lower-case name"
    return ""


def _test(words: Words) -> str:
    """Check the words of test: ``-v`` evaluates its operand, and runs a command substitution in an array index."""
    return "-v may run text from an index" if "-v" in words and any("[" in word[:-1] for word in words) else ""


def _rg(words: Words) -> str:
    names_ = {word.partition("=")[0] for word in words}
    return "--pre and --hostname-bin run a program" if not names_.isdisjoint(("--pre", "--hostname-bin")) else ""


def _command(words: Words) -> str:
    return "" if words[:1] in (["-v"], ["-V"]) else "it runs a program"


def _all_of(allowed: Callable[[str], object]) -> Callable[[Words], str]:
    return lambda words: "" if words and all(map(allowed, words)) else "it changes the session's shell"


# -- sed and awk: their scripts may use only a simple part of the language -------------------------------------------------

_TEXT = r"(?:[^/\\\n\[]|\\[^\n]|\[[^\]/\n]*\])*"
_ADDRESS = rf"(?:\d+|\$|/{_TEXT}/I?)"
_COMMAND = rf"(?:[pd=]|q\d*|s/{_TEXT}/{_TEXT}/[gpIi0-9]*|s\|[^|\\\n\[]*\|[^|\\\n]*\|[gpIi0-9]*)"
_SED = Regex(rf"\s*(?:(?:{_ADDRESS}(?:,[+~]?{_ADDRESS})?)?[ \t]*!?[ \t]*{_COMMAND}[ \t]*(?:[;\n]\s*|$))*")
_SED_OPTION = Regex(r"-[nErsuz]+|--quiet|--silent|--regexp-extended|--posix|--separate|--unbuffered")
_LONG = 300
"""Maximum length of a sed script; a longer one counts as one that may write."""


def _sed(words: Words) -> str:
    scripts: list[str] = []
    files: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word in ("-e", "-ne", "-nEe", "-Ee"):
            scripts += words[at + 1 : at + 2]
            at += 2
            continue
        if len(word) > 1 and word[0] == "-":
            if _SED_OPTION.fullmatch(word) is None:
                return f"{word} may change files"
        else:
            files.append(word)
        at += 1
    scripts = scripts or files[:1]
    if scripts and all(len(one) <= _LONG and _SED.fullmatch(one) for one in scripts):
        return ""
    return "its script is too long to check, or has more than simple p, d, =, q and s/// commands"


_AWK_ACTS = Regex(r"[>@]|\b(?:system|getline|close|fflush|ARGV|ARGC|ENVIRON|PROCINFO|SYMTAB|FUNCTAB)\b")


def _awk(words: Words) -> str:
    at = 0
    while at < len(words) and words[at][:1] == "-":
        if words[at][:2] not in ("-F", "-v"):
            return f"{words[at]} may load code"
        at += 1 if len(words[at]) > 2 else 2
    if at >= len(words):
        return "it has no program"
    if _AWK_ACTS.search(words[at]) or "|" in words[at].replace("||", ""):
        return "its program may write or run something"
    if any(word[:1] == "-" for word in words[at + 1 :]):
        return "a word after its program may be an option"
    return ""


CHECKED: Mapping[str, Callable[[Words], str]] = MappingProxyType(
    {
        "[": _test,
        "awk": _awk,
        "command": _command,
        "gawk": _awk,
        "mawk": _awk,
        "date": _date,
        "env": _alone,
        "export": _alone,
        "fd": _without("xX", "--exec", "--exec-batch"),
        "fdfind": _without("xX", "--exec", "--exec-batch"),
        "file": _without("C", "--compile"),
        "find": _find,
        "git": git,
        "hostname": _alone,
        "jobs": _alone,
        "locale": _alone,
        "printf": _printf,
        "read": _read,
        "rg": _rg,
        "sed": _sed,
        "set": _all_of(_SET.fullmatch),
        "shopt": _all_of(_SHOPT.__contains__),
        "sort": _without("oT", "--output", "--temporary-directory", "--compress-program"),
        "test": _test,
        "tree": _without("oR", "--output"),
        "uniq": _one_file("", "fsw"),
        "unset": _all_of(_NAME.fullmatch),
        "wait": _alone,
        "xxd": _one_file("r", "lscgo"),
    }
)
