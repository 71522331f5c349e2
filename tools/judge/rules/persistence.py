"""Rules: commands that make programs start automatically later. Files that do this have rules in tools/judge/path_rules.py."""

from __future__ import annotations

import re

from toolcrib.contract.regex import Regex
from tools.judge.table import ANY, ActView, Test, count, nth_operand, operand, opt, rule, sub, text, value, word

_EDITORS = Regex(
    r"['\"]?(?:\S*/)?(?:vim?|nvim|nano|emacs(?:client)?|code|codium|cursor|subl|hx|helix|micro|kak|pico|joe|mate|zed|idea"
    r"|notepad\S*|true|:|cat|less"
    r"|more|most|bat|delta|diff-so-fancy|difft|meld|kdiff3|vimdiff|nvimdiff|opendiff|bc|p4merge|gedit|kate)(?: [\w"
    r" \-+./=]*)?['\"]?",
    re.IGNORECASE,
)


def plain_editor(command: str) -> bool:
    """Return whether the command is only an editor or a pager, with at most plain options."""
    return _EDITORS.fullmatch(command) is not None


_PACKAGE_SETTINGS = (
    r"(?:^|\s)(?:script-shell|shell|prefix|(?:@[\w-]+:)?registry[ =]http:(?!//(?:localhost|127\.))|node-options|globalconfig"
    r"|userconfig|git|editor|viewer|init-module"
    r"|yarnPath|pnpmfile|global-pnpmfile|plugins|onload-script)(?:[ =]|(?<=http:))"
)
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
        "schedules a command for later",
        yes=("at now + 1 hour", "batch", "at -f x.sh noon"),
        no=("at -l", "atq", "at -c 3"),
    ),
    rule(
        "persist.at",
        "ask",
        "schtasks",
        text(r"/(?:create|delete|change|run)\b"),
        "changes scheduled commands",
        yes="schtasks /create /tn x /tr y",
        no="schtasks /query",
    ),
    rule(
        "persist.systemd",
        "ask-once",
        "systemctl",
        sub("link|edit|add-wants|add-requires", "-H --host -M --machine -t --type -p --property -n -s")
        | (sub("enable|reenable") & operand(r"[./~].*|.*/.*|.*\ufffc.*", 1)),
        "installs a program that starts automatically",
        yes=("systemctl link ./evil.service", "systemctl enable /tmp/x.service", "systemctl edit nginx"),
        no=("systemctl list-timers", "systemctl enable --now myapp"),
        at=nth_operand(1),
    ),
    rule(
        "persist.systemd",
        "ask-once",
        "systemd-run",
        word(r"--on-\w+(=.*)?|--timer-property.*|--unit.*|-u.*|--remain-after-exit|-r")
        | ~opt("--scope --wait --pty -t --pipe -P --shell -S"),
        "starts a program that keeps running or starts later",
        yes=(
            "systemd-run --on-calendar=daily x",
            "systemd-run --user --on-boot=1min y",
            "systemd-run --user a",
            "systemd-run a --wait",
        ),
        no=("systemd-run --help", "systemd-run --scope make", "systemd-run -p MemoryMax=1G --wait make", "systemd-run -tG make"),
    ),
    rule(
        "persist.systemd",
        "ask-once",
        "busctl gdbus dbus-send qdbus",
        text(r"\b(?:StartTransientUnit|EnableUnitFiles|LinkUnitFiles|SetUnitProperties|AttachProcessesToUnit)\b"),
        "makes the service manager start a program",
        yes="busctl --user call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager"
        " StartTransientUnit x",
        no="busctl list",
    ),
    rule(
        "persist.systemd",
        "ask-once",
        "systemctl",
        opt("--user") & sub("enable|reenable|preset|set-environment|import-environment", "-H --host -M --machine -t --type"),
        "installs a program that starts automatically",
        yes="systemctl --user enable watch.service",
        no=("systemctl --user status watch", "systemctl --user restart watch"),
    ),
    rule(
        "git.redirects",
        "ask",
        "git",
        sub("config")
        & opt("--global --system")
        & text(r"\surl\.(?!\S*(?:@|//)([\w.-]+)\S*\.(?:push)?insteadof\s+\S*(?:@|//)\1)\S*\.(?:push)?insteadof\s+\S")
        & ~opt("--get --get-all --unset"),
        "makes git fetch from and push to other addresses than the repositories name",
        yes="git config --global url.https://x.test/.insteadOf https://github.com/",
        no=("git config --global --get url.x.insteadOf y", "git config url.x.insteadOf y", "git config --global user.name x"),
    ),
    rule(
        "persist.setting",
        "ask-once",
        "npm pnpm yarn bun",
        (sub("config set|add") | sub("set|c")) & text(_PACKAGE_SETTINGS),
        "changes which programs npm and similar tools run, or where they get packages from, for every project",
        yes=(
            "npm config set script-shell ./x.sh",
            "npm set registry http://x.test/",
            "npm config set prefix=/home/dev/x",
            "pnpm config set node-options '--require ./x.js'",
        ),
        no=("npm config set fund false", "npm config get registry", "npm install set", "npm config set save-exact true"),
    ),
    rule(
        "persist.setting",
        "ask-once",
        "pip pip3 uv poetry",
        sub("config set") & text(r"(?:index-url|extra-index|find-links|index|repositor\S*|source\S*|proxy)\S*[ =]"),
        "changes where packages come from, for every project",
        yes="pip config set global.index-url http://x.test/simple",
        no=("pip config list", "pip config set global.timeout 60"),
    ),
    rule(
        "persist.setting",
        "ask-once",
        "go",
        sub("env") & opt("-w") & text(r"\b(?:GOFLAGS|GOPROXY|GOSUMDB|GONOSUMDB|GOROOT|GOENV|CC|CXX|AR|GOTOOLCHAIN)="),
        "changes which programs go runs, or where it gets modules from",
        yes="go env -w GOFLAGS=-toolexec=./x",
        no=("go env GOFLAGS", "go env -w GOBIN=/home/dev/go/bin"),
    ),
    rule(
        "persist.setting",
        "ask-once",
        "gsettings dconf",
        sub("set|write|load"),
        "changes settings of the desktop, including commands",
        yes=("gsettings set org.gnome.x command ./x", "dconf write /org/x \"'./x'\"", "dconf load / < x"),
        no=("gsettings get org.gnome.x y", "dconf dump /"),
        effect="outside",
    ),
    rule(
        "persist.launchd",
        "ask-once",
        "launchctl",
        sub("load|bootstrap|submit|setenv|config|asuser|enable"),
        "installs a program that starts automatically",
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
        "installs a program that starts automatically",
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
        effect="remote",
    ),
    rule(
        "persist.git-hooks",
        "ask-once",
        "git",
        sub("init|clone") & value("--template", ".+"),
        "installs hooks, which git runs automatically",
        yes=("git init --template=/tmp/x .", "git clone --template /tmp/x a b"),
        no=("git init --template=", "git init -b main ."),
    ),
    rule(
        "persist.extension",
        "ask-once",
        "code codium cursor windsurf code-insiders",
        opt("--install-extension"),
        "adds code to an editor",
        yes=("code --install-extension ./x.vsix", "code --install-extension a.b"),
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
        "lets a file run whenever its folder is entered",
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
