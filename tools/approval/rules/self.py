"""Rows: toolcrib's own settings and approvals, which only a person may change."""

from __future__ import annotations

from tools.approval.table import Test, View, opt, rule, text

_NOUNS = frozenset(
    [
        "config",
        "plugin",
        "plugins",
        "tool",
        "tools",
        "toolset",
        "toolsets",
        "mcp",
        "skill",
        "skills",
        "hook",
        "hooks",
        "server",
        "servers",
        "gateway",
        "models",
        "providers",
        "users",
        "user",
        "cron",
    ]
)
_VERBS = frozenset(
    [
        "set",
        "unset",
        "edit",
        "reset",
        "import",
        "enable",
        "disable",
        "install",
        "add",
        "remove",
        "trust",
        "allow",
        "grant",
        "delete",
        "update",
        "write",
        "approve",
        "use",
    ]
)
_GRANTS = frozenset(
    [
        "approvals",
        "approval",
        "approve",
        "approves",
        "grants",
        "grant",
        "allow",
        "trust",
        "yolo",
        "deny",
        "revoke",
        "setup",
        "init",
        "login",
    ]
)
_LISTS = frozenset({"list", "show", "pending", "history", "log"})


def _changes(view: View) -> bool:
    given = [value.text for value in view.operands(frozenset({"--profile", "--platform", "--project"}))]
    if not given:
        return False
    if given[0] in _GRANTS:
        return not (given[0] in ("approvals", "approval", "grants") and (len(given) == 1 or given[1] in _LISTS))
    return given[0] in _NOUNS and any(word in _VERBS for word in given[1:3])


_ANSWERS = opt("--yes --yolo --auto-approve --dangerously-skip-permissions --config --no-approval --approve") | text(
    r"(?:^| )-y(?: |$)"
)

RULES = (
    rule(
        "self.approval",
        "block",
        "toolcrib",
        Test(_changes) | _ANSWERS,
        "changes toolcrib's own settings or approvals; only a person may",
        yes=(
            "toolcrib config set approval off",
            "toolcrib plugins enable x",
            "toolcrib approve 42",
            "toolcrib --config /tmp/x.yaml chat",
            "toolcrib grants add x",
        ),
        no=(
            "toolcrib tools",
            "toolcrib approvals",
            "toolcrib explain 'rm -rf /'",
            "toolcrib config show",
            "toolcrib approvals list",
        ),
        dry=False,
    ),
    rule(
        "self.approval",
        "block",
        "python",
        text(
            r"^(?:-[a-zA-Z]\S* )*-m ?(?:agent|toolcrib)(?:\.cli)?(?:[. ].*)?(?<= )(?:set|unset|edit|reset|enable|install|add"
            r"|trust|approve|grant|allow|yolo)(?: |$)"
        ),
        "changes toolcrib's own settings or approvals; only a person may",
        yes="python -m agent.cli config set approval off",
        no=("python -m pytest", "python -m agent.cli tools", "python -m agentlib set"),
        dry=False,
    ),
    rule(
        "self.approval",
        "block",
        "python",
        text(r"-c .*(?:\bagent\.(?:config|cli|run)\b|tools\.approval|toolcrib\._store)"),
        "changes toolcrib's own settings or approvals; only a person may",
        yes="python -c 'import agent.config'",
        no=("python -c 'import toolcrib'", "python a.py"),
        dry=False,
    ),
)
