"""Rows: what starts by itself later. Files that do so are judged by their paths (tools/judge/paths.py)."""

from __future__ import annotations

import re

from toolcrib._regex import Regex
from tools.judge.table import ANY, ActView, Test, count, nth_operand, operand, opt, rule, sub, text, value, word

_EDITORS = Regex(
    r"['\"]?(?:\S*/)?(?:vim?|nvim|nano|emacs(?:client)?|code|codium|cursor|subl|hx|helix|micro|kak|pico|joe|mate|zed|idea"
    r"|notepad\S*|true|:|cat|less"
    r"|more|most|bat|delta|diff-so-fancy|difft|meld|kdiff3|vimdiff|nvimdiff|opendiff|bc|p4merge|gedit|kate)(?: [\w"
    r" \-+./=]*)?['\"]?",
    re.IGNORECASE,
)


def plain_editor(command: str) -> bool:
    """Return whether the command is just an editor or a pager, with plain options at most."""
    return _EDITORS.fullmatch(command) is not None


_CRON_LISTS = opt("-l -V -h")


def _crontab(view: ActView) -> bool:
    return not (view.words and view.words[-1] in ("-l", "-V", "--help", "-T")) and not any(
        word in ("-l", "-lu") for word in view.words
    )


RULES = (
    rule(
        "persist.cron",
        "ask-once",
        "crontab fcrontab",
        Test(_crontab) & ~_CRON_LISTS,
        "replaces, edits or deletes scheduled jobs",
        yes=("crontab -r", "crontab -", "crontab jobs.txt", "crontab -ri", "crontab -u root x"),
        no=("crontab -l", "crontab -u root -l"),
    ),
    rule(
        "persist.at",
        "ask-once",
        "at batch",
        ~opt("-l -c -q -V"),
        "schedules something for later",
        yes=("at now + 1 hour", "batch", "at -f x.sh noon"),
        no=("at -l", "atq", "at -c 3"),
    ),
    rule(
        "persist.at",
        "ask",
        "schtasks",
        text(r"/(?:create|delete|change|run)\b"),
        "changes what is scheduled",
        yes="schtasks /create /tn x /tr y",
        no="schtasks /query",
    ),
    rule(
        "persist.systemd",
        "ask-once",
        "systemctl",
        sub("link|edit|add-wants|add-requires", "-H --host -M --machine -t --type -p --property -n -s")
        | (sub("enable|reenable") & operand(r"[./~].*|.*/.*|.*\ufffc.*", 1)),
        "plants something that starts by itself",
        yes=("systemctl link ./evil.service", "systemctl enable /tmp/x.service", "systemctl edit nginx"),
        no=("systemctl list-timers", "systemctl enable --now myapp"),
        at=nth_operand(1),
    ),
    rule(
        "persist.systemd",
        "ask-once",
        "systemd-run",
        word(r"--on-\w+(=.*)?|--timer-property.*|--unit.*|-u.*|--remain-after-exit|-r"),
        "starts something that stays, or starts later",
        yes=("systemd-run --on-calendar=daily x", "systemd-run --user --on-boot=1min y"),
        no="systemd-run --help",
    ),
    rule(
        "persist.systemd",
        "ask-once",
        "busctl gdbus dbus-send qdbus",
        text(r"\b(?:StartTransientUnit|EnableUnitFiles|LinkUnitFiles|SetUnitProperties|AttachProcessesToUnit)\b"),
        "has the service manager start something",
        yes="busctl --user call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager"
        " StartTransientUnit x",
        no="busctl list",
    ),
    rule(
        "persist.launchd",
        "ask-once",
        "launchctl",
        sub("load|bootstrap|submit|setenv|config|asuser|enable"),
        "plants something that starts by itself",
        yes=("launchctl load ~/Library/LaunchAgents/x.plist", "launchctl bootstrap gui/501 x.plist"),
        no="launchctl list",
    ),
    rule(
        "persist.boot",
        "ask-once",
        "update-rc.d chkconfig rc-update sysrc rcctl insserv pm2 osascript",
        sub("add|startup|enable|defaults")
        | word("--add")
        | operand("defaults|enable|on", 1)
        | text(r"make (?:new )?login item|_enable=.?yes"),
        "plants something that starts by itself",
        yes=("update-rc.d evil defaults", "pm2 startup", "rc-update add evil default", "chkconfig evil on"),
        no=("pm2 start app.js", "chkconfig --list"),
    ),
    rule(
        "persist.ssh",
        "ask-once",
        "ssh-copy-id ssh-import-id ssh-import-id-gh",
        count(1) | ANY,
        "lets a key log in",
        yes=("ssh-copy-id x@web", "ssh-import-id gh:mallory"),
        no="ssh-copy-id --help",
    ),
    rule(
        "persist.git-hooks",
        "ask-once",
        "git",
        sub("init|clone") & value("--template", ".+"),
        "brings hooks along, which git runs by itself",
        yes=("git init --template=/tmp/x .", "git clone --template /tmp/x a b"),
        no=("git init --template=", "git init -b main ."),
    ),
    rule(
        "persist.extension",
        "ask-once",
        "code codium cursor",
        opt("--install-extension") & operand(r".*\.vsix|.*/.*"),
        "adds code to an editor",
        yes="code --install-extension ./x.vsix",
        no="code .",
    ),
    rule(
        "persist.trigger",
        "ask-once",
        "udevadm incrontab inotifywait",
        (Test(lambda view: view.name == "incrontab") & ~opt("-l"))
        | (sub("control") & opt("-R --reload --reload-rules"))
        | (sub("trigger")),
        "makes events start programs",
        yes=("incrontab -e", "udevadm control --reload-rules"),
        no=("udevadm info /dev/sda", "incrontab -l"),
    ),
    rule(
        "persist.direnv",
        "ask-once",
        "direnv",
        sub("allow|permit|grant"),
        "lets a folder's file run whenever it is entered",
        yes="direnv allow",
        no="direnv status",
    ),
    rule(
        "persist.trap",
        "ask-once",
        "export declare typeset",
        operand(r"PROMPT_COMMAND=.+"),
        "runs before every prompt",
        yes="export PROMPT_COMMAND=x",
        no="export PS1=x",
    ),
)
