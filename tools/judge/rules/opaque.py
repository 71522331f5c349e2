"""Findings about code that can't be read, and commands with an unknown name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolcrib.contract.regex import Regex
from tools.judge.meaning.act import Act, Code
from tools.judge.meaning.value import HOLE, Taint

# -- code that can't be read -----------------------------------------------------------------------------------------------

_INITIALISERS = Regex(
    r"(?:eval )?['\"]?(?:\$\(|`|<\()\s*(?:\w+=\w+ )*(?:(?!curl|wget|cat|echo|printf|base64|nc|xxd|openssl)[\w.-]+"
    r" (?:completions?|shell-?init|hook|activate|shellenv|completion script|init)\b"
    r"|(?:[\w./~${}-]*/)?(?:ssh-agent|gpg-agent|keychain|dircolors|lesspipe(?:\.sh)?|tset|resize|thefuck|direnv|rbenv|pyenv"
    r"|nodenv|jenv|goenv"
    r"|plenv|phpenv|luaenv|tfenv|asdf|mise|rtx|fnm|nvm|volta|n|conda|mamba|micromamba|pixi|starship|zoxide|atuin|mcfly|fzf"
    r"|sheldon|brew|opam|cs|sdk|gh|glab|kubectl|oc"
    r"|helm|k3d|kind|minikube|docker-machine|colima|podman-machine|op|aws|aws-vault|gcloud|doctl|heroku|terraform|poetry|pipx"
    r"|pipenv|uv|rustup|cargo|luarocks|perl|register-python-argcomplete\d?"
    r"|activate-global-python-argcomplete|pip\d?|npm|pnpm|yarn|bun|deno|rake|bundle|hub|rbw|swiftenv|xcrun|vfox|devbox|nix"
    r"|guix|getopt|locale|tput|stty|shadowenv|hermit|proto|pkgx|tmuxifier"
    r"|oh-my-posh|navi|scmpuff|jump|autojump|fasd|z|complete|grunt|gulp|ng|vault|consul|nomad|packer|just|task|dagger|tilt"
    r"|skaffold|eksctl|flux|argocd|istioctl|stern|sam|pulumi"
    r"|dbus-launch|gnome-keyring-daemon|xdg-user-dirs|systemctl|modulecmd|lmod|spack|module)\b)[^|;&`$()]*(?:\)|`)['\"]?\s*"
)
"""Programs whose output is intended to be evaluated: ``eval "$(ssh-agent -s)"``."""

_EXTRA_PIPE = Regex(r"\|\s*(?:ba|z|da)?sh\b")
_ASSIGNS = Regex(r"^(?:\s*(?:export |local |declare |readonly )?[A-Za-z_]\w*=[^\s;&|`$()]*\s*;?)*$")


def code_findings(act: Act, before: Act | None = None) -> Iterator[tuple[str, str]]:
    """Yield (key, why) for code that ``act`` runs although the judge could not read it; ``before``: the act before it, if any."""
    told: set[str] = set()
    for code in act.code:
        if before is not None and code.path.startswith("/dev/fd/") and _is_initialiser(before):
            continue
        found = _of_input(act, code) or _of_code(act, code)
        if found is not None and found[0] not in told:
            told.add(found[0])
            yield found


def _of_code(act: Act, code: Code) -> tuple[str, str] | None:
    taint, text = code.text.taint, code.text.text
    if taint & Taint.REMOTE:
        return "code.remote", "runs a file that was just downloaded"
    if taint & Taint.DECODED and code.source == "file":
        return "code.decoded", "runs a file that was decoded from something else"
    if not _unread(code):
        return None
    if code.language in _DATA and text.strip() == HOLE:
        return None  # a dump that is loaded
    if code.changed:
        return "opaque.changed", f"runs a file that {code.changed} may have changed; its new contents were not read"
    if taint & Taint.DECODED:
        return "code.decoded", "runs encoded text, which can't be read before it runs"
    if _is_harmless(act, code):
        return None
    if code.source == "file":
        return _of_file(code)
    if code.source == "stdin" and not taint & Taint.LOCAL and _from_missing_file(act):
        return None
    if taint & Taint.LOCAL:
        return "code.piped", "runs a file's contents, which were not read"
    return "opaque.code", "runs text that is only known when it runs"


INPUT = "opaque.input"
"""Key of findings about programs that run what later calls write to their input."""
CLIENT_INPUT = "process.client"
"""Key of findings about programs that pass their input on to a server or another terminal."""
_CLIENTS = frozenset({"sql", "redis", "mongo"})
_EMBEDDED = frozenset({"sqlite3", "sqlite", "duckdb"})
"""Databases without a server."""
_DATA = frozenset({"sql", "redis", "mongo", "ed", "powershell"})
"""Languages whose whole text the rules search, or that cannot start programs."""

_SMALL = frozenset({"sed", "vim"})

_FOREIGN = frozenset(
    (
        "applescript clojure crystal dc elisp elixir erlang gnuplot groovy haskell java julia lisp ocaml octave r raku scala"
        " scheme swift"
    ).split()
)
"""Languages without a reader. Their code is only searched for words that start programs, change files or use the network."""

_FOREIGN_ACTS = Regex(
    r"\b(?:system2?|shell|exec\w*|spawn|popen|run|cmd|eval\w*|unlink|delete\w*|rm|remove\w*|rmtree|mv|process|kill\w*"
    r"|download\w*|url|socket\w*"
    r"|open-network\w*|call-process\w*|start-process\w*|shell-command\w*|make-process|source|do shell script"
    r"|halt|reboot"
    r"|chmod|write\w*|file\.remove|File\.(?:rm|write)\w*|System\.\w*cmd|Port\.open|execute)\b|`|!\s*\w",
    re.IGNORECASE,
)


def _of_input(act: Act, code: Code) -> tuple[str, str] | None:
    if not code.text.taint & Taint.INPUT or not (code.text.text.strip() == HOLE or _unread(code)):
        return None
    if code.language in _CLIENTS and act.name.rpartition("/")[2] not in _EMBEDDED:
        return CLIENT_INPUT, "a server runs what is written to its input"
    return INPUT, "runs what is written to its input"


def _unread(code: Code) -> bool:
    """Return whether the code could not be examined.

    That is so if it is unknown, completely or in the name of a shell command, or if no reader knows its language.
    """
    text = code.text.text
    if HOLE in text:
        whole = not text.replace(HOLE, "").strip("\"' \t\n;")
        return (whole and code.language not in _SMALL) or (code.language == "shell" and _COMMAND_PLACE.search(text) is not None)
    if code.language in _FOREIGN:
        return _FOREIGN_ACTS.search(text) is not None
    return (
        bool(code.text.taint & (Taint.UNKNOWN | Taint.DECODED))
        and code.language != "shell"
        and (code.language not in _DATA and bool(code.text.taint & Taint.UNKNOWN))
    )


def _of_file(code: Code) -> tuple[str, str] | None:
    """Return a finding for a file that cannot be read, or not understood. A file with only its folder unknown
    (``. "$NVM_DIR/nvm.sh"``) is accepted.
    """
    if code.text.taint & Taint.SECRET:
        return None  # `source .env`: files with secrets are never read
    if HOLE in code.path and code.path.strip("\"'") != HOLE:
        return None
    if HOLE not in code.text.text:
        return "opaque.file", "runs a file that may do more than was found in it"
    return "opaque.file", "runs a file that cannot be read"


def _from_missing_file(act: Act) -> bool:
    return any(target.op == "<" and HOLE not in target.path.text and "(" not in target.path.shown for target in act.redirects)


def _is_initialiser(act: Act) -> bool:
    """Return whether ``act`` is the inner command of ``source <(kubectl completion bash)`` or similar code."""
    return _INITIALISERS.fullmatch(f"$({' '.join(one.text for one in act.argv)})") is not None


def _is_harmless(act: Act, code: Code) -> bool:
    """Return whether the code is the output of one of the ``_INITIALISERS``."""
    text = code.text.text
    shown = code.text.shown or next((one.shown for one in act.argv[1:] if one.text == text), "")
    if not shown and code.source == "file":
        shown = next((one.shown for one in act.argv[1:] if one.shown.startswith("<(")), "")
    return bool(shown) and _INITIALISERS.fullmatch(shown.strip()) is not None and _EXTRA_PIPE.search(shown) is None


_COMMAND_PLACE = Regex(rf"(?:^|[;&|\n(]|\$\(|`|\b(?:do|then|else|sudo|exec|eval|xargs|command|nohup|time)\s)\s*['\"]?{HOLE}")
"""An unknown part of shell text in the position of a command's name."""

# -- commands without a known name -----------------------------------------------------------------------------------------

_TOOLS = Regex(
    r"['\"]?\$\{?(?:\w*_)?(?:EDITOR|VISUAL|PAGER|BROWSER|SHELL|TERMINAL|PYTHON\d*|PY|PYTHON_?\w*|PIP\d*|PYTEST|NODE|NPM|NPX"
    r"|YARN|PNPM|BUN|DENO|CC|CXX|CPP|LD|AR|AS|NM|RANLIB|STRIP|OBJCOPY|OBJDUMP|MAKE|CMAKE|NINJA"
    r"|GO|GOBIN|CARGO|RUSTC|JAVA|JAVAC|MVN|GRADLE|RUBY|BUNDLE|GEM|PERL|PHP|COMPOSER|DOCKER|PODMAN|COMPOSE|DOCKER_COMPOSE"
    r"|KUBECTL|HELM|TERRAFORM|TF|GIT|GH|GREP|SED|AWK|FIND|CURL|WGET|TAR|BIN|EXE|BINARY"
    r"|CMD_PREFIX|RUN|RUNNER|LINTER|FORMATTER|TEST_CMD|BUILD_CMD|TOOL|PROG|PROGRAM|APP|CLI|SCRIPT|INTERPRETER|EXECUTABLE|DIFF"
    r"|MERGE|LESS|MAN|SUDO|SSH|VENV\w*|EMACS|VIM|NVIM|TEST|BUILD|LINT|COVERAGE|MYPY|RUFF|BLACK|FLAKE8)(?::?-[^}]*)?\}?['\"]?",
    re.IGNORECASE,
)
_WHICH = Regex(
    r"['\"]?(?:\$\(|`)\s*(?:which|command -v|type -[pP]|whence(?: -p)?|pyenv which|rbenv which|npm bin|yarn bin|poetry env"
    r" info(?: -p| --path| -e| --executable)*|brew --prefix \S+|git --exec-path|go env GOPATH|mise which|asdf which|xcrun -f"
    r"|rustup which|readlink -f|realpath|dirname)\s*[^|;&`$()]*(?:\)|`)[\w./-]*['\"]?"
)


def unknown_command(act: Act) -> str:
    """Return why a command with an unknown name needs an approval; "" if it is clearly a tool named by a variable."""
    first = act.argv[0] if act.argv else None
    shown = first.shown if first is not None else ""
    if first is not None and first.taint & (Taint.REMOTE | Taint.DECODED):
        return "the command itself was downloaded or decoded"
    if shown and (
        _TOOLS.fullmatch(shown)
        or _WHICH.fullmatch(shown)
        or shown.strip("\"'") in ("$@", "${@}", "$*", "$1", "$0", "${1}", "${0}")
    ):
        return ""
    text = first.text if first is not None and not first.pattern else HOLE
    if "/" in text and not text.endswith(HOLE) and text.rpartition("/")[2].replace(HOLE, ""):
        return ""  # $HOME/bin/tool: the program's name is known, only its folder is not
    return "the command is only known when it runs"
