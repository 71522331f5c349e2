"""Rules: toolcrib's own settings and approvals, which only a user may change."""

from __future__ import annotations

from collections.abc import Mapping

from toolcrib.contract.regex import Regex
from tools.judge.table import ActView, Test, opt, rule, sub, text

_ANYTHING: frozenset[str] | None = None
_NOTHING: frozenset[str] = frozenset()
_ALLOWED: Mapping[str, frozenset[str] | None] = {
    **dict.fromkeys("audit call chat completion docs doctor explain models parse run trace usage".split(), _ANYTHING),
    **dict.fromkeys("approvals approval grants".split(), frozenset(["list", "show", "pending", "history", "log"])),
    "config": frozenset(["show", "get", "path", "check"]),
    "cron": frozenset(["list", "history"]),
    "env": frozenset(["list", "test"]),  # others end environments of other sessions, or start a shell for the user
    "gateway": frozenset(["run", "status", "people", "reload", "drain", "stop"]),
    "plugins": frozenset(["list", "info"]),
    "sandbox": frozenset(["status", "test"]),
    "tools": frozenset(["list", "show"]),
    "toolsets": frozenset(["list", "show", "resolve", "diff"]),
    # Showing a session, note or process counts too: it may be another principal's. ``console`` acts as the user in its chats.
    **dict.fromkeys("console memory ps sessions setup undo".split(), _NOTHING),
}
"""Subcommand -> the actions that a session's commands may run. Every other subcommand, also a plugin's, and every other action
counts as changing toolcrib's settings or approvals.
"""
_VALUED = frozenset(
    {"--profile", "--platform", "--project", "--session", "--limit", "--user", "--backend", "--with", "--older-than"}
)
_FLAGS = frozenset({"--json", "--all", "--plain", "--verbose", "-v", "--origins", "--explain", "--platforms", "--debuggable"})
"""Options with a value, and without one. The word after any other option may be its value instead of the action."""
_DOCTORS = ("--f", "--b", "--r")
"""Shortest forms of doctor's options that change something (--fix, --bundle, --repair-store); argparse accepts them."""


def _operands(words: list[str]) -> list[int]:
    return [at for at, word in enumerate(words) if word[:1] != "-" and (not at or words[at - 1] not in _VALUED)]


def _is_change(words: list[str]) -> bool:
    """Return whether the words after ``toolcrib`` may change its settings or approvals."""
    at = _operands(words)
    allowed = _ALLOWED.get(words[at[0]], _NOTHING) if at else _ANYTHING
    if allowed is None:
        return bool(at) and words[at[0]] == "doctor" and any(word.startswith(_DOCTORS) for word in words)
    if len(at) == 1:
        return not allowed
    before = words[at[1] - 1]
    return words[at[1]] not in allowed or (before[:1] == "-" and before not in _FLAGS and "=" not in before)


def _as_module(view: ActView) -> bool:
    """Return whether Python runs toolcrib to change its settings: ``python -m agent.cli config set ...``, ``python
    .venv/bin/toolcrib config set ...``.
    """
    words = view.words
    for at, word in enumerate(words):
        if word == "-m" or (word[:2] == "-m" and word[2:3] != "-"):
            name, rest = (word[2:], words[at + 1 :]) if len(word) > 2 else ("".join(words[at + 1 : at + 2]), words[at + 2 :])
            is_ours = name == "toolcrib" or (name in ("agent.cli", "agent.cli.app") and not _ALLOWED.keys().isdisjoint(rest))
            return is_ours and _is_change(rest)
        if word[:1] != "-":
            rest = words[at + 1 :]
            is_ours = word.removesuffix("/__main__.py").rstrip("/").rpartition("/")[2] == "toolcrib"
            return is_ours and _is_change(rest)
    return False


_TERMINALS = frozenset({"script", "expect", "unbuffer", "tmux", "screen", "dtach", "abduco", "zellij", "socat", "xterm", "ssh"})


def _has_terminal(view: ActView) -> bool:
    """Return whether the command would give toolcrib a terminal and type into it, so that it could answer toolcrib's prompts."""
    first = next((view.words[at] for at in _operands(view.words)), "chat")
    given = view.act.language != "shell" or not _TERMINALS.isdisjoint(view.act.wrappers)
    return given and first in ("chat", "call")


_OWN_CODE = Regex(
    r"agent\.(?:api|cli|config|conversation|memory|plugin_host|policy|process|run|store|undo|workspace)(?:\.|$)"
    r"|toolcrib\.(?!\*)|tools\.approval(?:\.|$)"
)
"""Imported names that are (almost) certainly toolcrib's own and that can change approvals and settings."""


def _is_own(view: ActView) -> bool:
    return _OWN_CODE.match(view.words[0]) is not None


def _maybe_own(view: ActView) -> bool:
    """Return whether the module may be toolcrib's. A package named agent next to the importing source is the project's own."""
    return not _is_own(view) and view.words[1] != "beside"


_WRITTEN_HERE = Test(_is_own) & Test(lambda view: view.words[1] == "here")


_ANSWERS = opt(
    "--yes --yolo --auto-approve --dangerously-skip-permissions --config --no-approval --approve --debuggable --develop-toolcrib"
) | text(r"(?:^| )-y(?: |$)")

RULES = (
    rule(
        "self.approval",
        "block",
        "toolcrib",
        Test(lambda view: _is_change(view.words)) | _ANSWERS,
        "may change toolcrib's own settings or approvals, or undo changes; only a user may do that",
        yes=(
            "toolcrib config set approval off",
            "toolcrib config confirm",
            "toolcrib setup --yes",
            "toolcrib setup --provider manual --dry-run",
            "toolcrib plugins enable x",
            "toolcrib plugins new x",
            "toolcrib toolsets create x --tools terminal",
            "toolcrib approve 42",
            "toolcrib --config /tmp/x.yaml chat",
            "toolcrib run --develop-toolcrib x",
            "toolcrib --debuggable chat",
            "toolcrib grants add x",
            "toolcrib undo --turn 3",
            "toolcrib sessions prune --older-than 1d",
            "toolcrib sessions",
            "toolcrib sessions show 4f1c",
            "toolcrib ps",
            "toolcrib ps kill server",
            "toolcrib memory forget x --yes",
            "toolcrib memory",
            "toolcrib approvals answer 81aa --scope once",
            "toolcrib doctor --fix",
            "toolcrib doctor --repair-store",
            "toolcrib doctor --bundle x.tar.gz",
            "toolcrib sandbox shell",
            "toolcrib command-of-a-plugin",
            "toolcrib env --session 81aa stop",
            "toolcrib toolsets --desc list create x",
        ),
        no=(
            "toolcrib tools",
            "toolcrib approvals",
            "toolcrib explain 'rm -rf /'",
            "toolcrib config show",
            "toolcrib approvals list",
            "toolcrib toolsets diff coding safe",
            "toolcrib plugins info x",
            "toolcrib doctor --json",
            "toolcrib explain doctor --brief",
            "toolcrib sandbox test",
            "toolcrib tools --platform telegram --json list",
            "toolcrib --version",
        ),
        dry=False,
    ),
    rule(
        "self.approval",
        "block",
        "python",
        text(
            r"^(?:-[a-zA-Z]\S* )*-m ?(?:agent|toolcrib)(?:\.cli)?(?:[. ].*)?(?<= )(?:set|unset|edit|reset|enable|install|add"
            r"|trust|approve|confirm|grant|allow|yolo)(?: |$)"
        ),
        "changes toolcrib's own settings or approvals; only a user may do that",
        yes="python -m agent.cli config set approval off",
        no=("python -m pytest", "python -m agent.cli tools", "python -m agentlib set"),
        dry=False,
    ),
    rule(
        "self.approval",
        "block",
        "python",
        text(r"-c .*(?:\bagent\.(?:api|conversation|policy|process|store)\b|tools\.approval|toolcrib\.contract\.store)"),
        "changes toolcrib's own settings or approvals; only a user may do that",
        yes="python -c 'f(\"agent.process\")'",
        no=("python -c 'import toolcrib'", "python a.py", "python -c 'agent.run(x)'"),
        dry=False,
    ),
    rule(
        "self.approval",
        "block",
        "python",
        Test(_as_module),
        "changes toolcrib's own settings or approvals; only a user may do that",
        yes=(
            "python3 -m agent.cli approvals revoke x",
            "python3 -m toolcrib approvals revoke x",
            "python3 lib/toolcrib/__main__.py config set approval off",
            "python3 lib/toolcrib/ config set approval off",
            "python -m agent.cli approvals answer 81aa",
            "python -I /srv/venv/bin/toolcrib config set a b",
            "python -m agent.cli doctor --fix",
        ),
        no=("python -m agent.cli approvals", "python bin/toolcrib tools"),
        dry=False,
    ),
    rule(
        "self.approval",
        "block",
        "toolcrib",
        Test(_has_terminal),
        "gives toolcrib a terminal where the same command could answer its prompts",
        yes=("script -qc 'toolcrib call terminal x' /dev/null", "tmux new -d 'toolcrib chat'"),
        no=("toolcrib call terminal x", "script -qc 'toolcrib tools' /dev/null"),
        dry=False,
    ),
    rule(
        "self.packages",
        "ask",
        "uv pipx",
        (sub("tool install|upgrade|uninstall") | sub("install|inject|upgrade|uninstall|reinstall|runpip"))
        & text(r"\btoolcrib\b|(?:^| )--all(?: |$)")
        & Test(lambda view: view.name == "pipx" or view.words[0] == "tool")
        | Test(lambda view: view.name == "pipx" and view.words[:1] in (["upgrade-all"], ["reinstall-all"], ["uninstall-all"])),
        "changes toolcrib's own installation, or the packages in its environment",
        yes=(
            "uv tool install --with evil toolcrib",
            "uv tool upgrade toolcrib",
            "uv tool upgrade --all",
            "pipx inject toolcrib evil",
            "pipx runpip toolcrib install evil",
            "pipx upgrade-all",
        ),
        no=(
            "uv tool install ruff",
            "uv tool list",
            "pipx install black",
            "pipx list",
            "uv pip install toolcrib",
            "uv add toolcrib",
        ),
    ),
    rule(
        "self.approval",
        "block",
        "@own-code",
        _WRITTEN_HERE,
        "runs code that uses toolcrib's own settings and approvals; only a user may do that",
        yes=(
            "python - <<< 'from agent.config import load_config'",
            "python -c 'from toolcrib import Agent'",
            "python -c 'from agent import process, api'",
        ),
        no=("python - <<< 'import agents.config'", "python -c 'from toolcrib import ToolResult'"),
        dry=False,
    ),
    rule(
        "self.code",
        "ask-once",
        "@own-code",
        Test(_is_own) & ~_WRITTEN_HERE,
        "runs code that uses toolcrib's own settings and approvals",
        yes=("@own-code agent.config file", "@own-code agent.process beside", "@own-code toolcrib.Agent file"),
        no="@own-code agent beside",
        dry=False,
    ),
    rule(
        "self.code",
        "ask-once",
        "@own-code",
        Test(_maybe_own),
        "runs code that may be toolcrib's own, which can change settings and approvals",
        yes=("python -c 'import agent'", "python - <<< 'import model_tools'", "python -c 'from toolcrib import *'"),
        no=("python -c 'import agents'", "@own-code agent.model_choice.prices beside", "@own-code agent.Agent beside"),
        dry=False,
    ),
    rule(
        "self.mark",
        "block",
        "prlimit ulimit",
        text(r"(?:^| )(?:--locks[= ]?|-[A-Za-z]*x[= ]?)(?:unlimited|hard|\d|:)"),
        "changes the limit that marks the processes of a session",
        yes=("prlimit --pid 12 --locks=unlimited", "ulimit -x unlimited", "ulimit -Hx 9", "prlimit --locks=unlimited make"),
        no=("ulimit -x", "prlimit --locks", "ulimit -n 4096", "prlimit --nofile=64 make"),
        dry=False,
    ),
)
