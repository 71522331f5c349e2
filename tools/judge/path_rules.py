"""Rules about paths: changes that are blocked, and changes that the user is asked about."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex
from tools.judge.findings import Level
from tools.judge.meaning.value import HOLE

Mode: TypeAlias = Literal["write", "delete", "permission", "folder", "read"]
"""Kind of change to a path; ``folder``: a folder is made there; ``read``: it is only read."""

_CHANGES: frozenset[Mode] = frozenset({"write", "delete", "permission"})
_ALL: frozenset[Mode] = _CHANGES | {"folder"}


@dataclass(frozen=True, slots=True)
class PathRule:
    """A rule. ``pattern`` is searched for in a normalised path that is absolute or begins with ``~``, with HOLEs for unknown
    parts.

    ``example`` is a path that it matches, ``counter`` one that it does not match.
    """

    key: str
    level: Level
    pattern: Regex[str]
    why: str
    example: str
    counter: str
    modes: frozenset[Mode] = _CHANGES


def _rule(
    key: str, level: Level, pattern: str, why: str, example: str, counter: str, modes: frozenset[Mode] = _CHANGES
) -> PathRule:
    return PathRule(key, level, Regex(pattern), why, example, counter, modes)


_HOME = rf"(?:^~[^/]*|^/(?:private/)?var/root|^/root|^/home/[^/]+|^/Users/[^/]+|^/etc/skel|^{HOLE})"
START_FILES = tuple(
    "bashrc bash_profile bash_login bash_logout bash_aliases bash_functions bash_completion profile zshrc zshenv zprofile zlogin"
    " zlogout kshrc mkshrc cshrc tcshrc login logout inputrc xinitrc xprofile xsession xsessionrc Xresources vimrc gvimrc exrc"
    " emacs pythonrc pythonrc.py pdbrc irbrc pryrc psqlrc gdbinit lldbinit tmux.conf screenrc gitconfig pam_environment"
    " environment curlrc wgetrc direnvrc envrc aliases".split()
)
"""Hidden files of a home with commands for the start of a shell, editor or session, without their dot."""

_LOADED = (
    # shells, and what they read
    r"cargo/(?:env[^/]*|config(?:\.toml)?|bin/.*)|nvm/.*\.sh|rvm/(?:scripts|hooks)/.*|sdkman/.*\.(?:sh|zsh)|asdf/.*\.(?:sh|fish)"
    r"|(?:py|rb|nod)env/(?:pyenv\.d|rbenv\.d|hooks|bin|shims)/.*|bash_completion\.d/.*|oh-my-(?:zsh|bash)/.*|zinit/.*|zplug/.*"
    r"|antigen/.*|zimrc|p10k\.zsh|tmux/.*|byobu/.*|screenlayout/.*|deno/(?:bin|env).*|bun/bin/.*|fzf\.(?:ba|z)sh|mise\.toml|bin/.*"
    # interpreters, databases, debuggers
    r"|sqliterc|duckdbrc|myclirc|mylogin\.cnf|mongorc\.js|mongoshrc\.js|tclshrc|wishrc|expectrc|expect\.rc|Rprofile|Renviron|ghci"
    r"|ghc/.*|utop/.*|ocamlinit|iex\.exs|erlang|sbclrc|clisprc(?:\.lisp)?|guile|racketrc|octaverc|maxima/.*|julia/config/.*"
    r"|perldb|replyrc|re\.pl/.*|phprc|php\.ini|pdbrc\.py|gdbearlyinit|gef\.rc|radare2rc|node_modules/.*|node_libraries/.*"
    r"|jupyter/.*\.(?:py|json|js)|ipython/.*\.(?:py|ipy|json)|matplotlib/.*\.py|psqlrc-.*"
    # package managers and builds
    r"|npmrc|yarnrc(?:\.ya?ml)?|pnpmrc|bunfig\.toml|gemrc|bundle/(?:config|plugin/.*)|pip/pip\.conf|pydistutils\.cfg|condarc"
    r"|gradle/(?:gradle\.properties|init\.gradle(?:\.kts)?|init\.d/.*)|m2/(?:settings(?:-security)?|extensions|toolchains)\.xml"
    r"|mavenrc|sbt/.*|ivy2/.*\.xml|lein/profiles\.clj|clojure/deps\.edn|mix/.*|hex/.*config|cabal/config|stack/config\.yaml"
    r"|cpanplus/.*|cpan/.*Config\.pm|composer/config\.json|rpmmacros|makepkg\.conf|pbuilderrc|devscripts|quiltrc|ccache/.*\.conf"
    # editors, tools, mail
    r"|g?vim/.*\.(?:vim|lua|py)|vim/(?:vimrc|gvimrc)|ideavimrc|emacs\.d/.*\.elc?|spacemacs|doom\.d/.*|nanorc|sublime[^/]*"
    r"|vscode(?:-server|-insiders)?/(?:extensions/.*|argv\.json|data/.*)|cursor(?:-server)?/.*|windsurf/.*|vscode-oss/.*"
    r"|claude(?:\.json|/(?:settings[^/]*\.json|CLAUDE\.md|(?:hooks|commands|agents|skills|plugins)/.*))|mcp\.json|codex/(?:config\.toml"
    r"|AGENTS\.md|.*hooks.*|prompts/.*|skills/.*)|gemini/(?:settings\.json|GEMINI\.md|extensions/.*)|aider\.conf\.ya?ml"
    r"|continue/config.*|hgrc|hgext/.*|subversion/config|bazaar/.*|cvsrc|lesskey|lessfilter|lesspipe|forward|mailcap|mailrc|muttrc"
    r"|mutt/.*|procmailrc|qmail.*|vacation\.msg|wezterm\.lua|hyper\.js|kitty/.*|fehbg|dmrc|xbindkeysrc|sxhkdrc|fluxbox/.*"
    r"|openbox/.*|icewm/.*|awesome/.*|xmonad/.*|dwm/.*|i3/.*|conkyrc|(?:terraform|tofu)rc|terraform\.d/plugins/.*|krew/.*|pulumi/(?:bin|plugins)/.*|ansible\.cfg|ansible/(?:plugins|collections)/.*|tigrc|ackrc"
)
_LOADED_CONFIG = "|".join(
    (
        r"pip/pip\.conf|uv/uv\.toml|npm/.*|pnpm/.*|yarn/.*|pypoetry/.*|pdm/.*|hatch/.*|mise/.*|containers/.*\.conf|cargo/.*|go/env",
        r"(?:Code|Code - Insiders|Code - OSS|VSCodium|Cursor|Windsurf)/User/(?:settings|tasks|keybindings|mcp)\.json|zed/.*",
        r"helix/.*|emacs/.*|doom/.*|vim/.*|kak/.*|micro/.*|sublime-text[^/]*/.*|JetBrains/.*|kitty/.*|alacritty/.*|wezterm/.*|ghostty/.*|foot/.*",
        r"konsolerc|xfce4/.*|mimeapps\.list|hg/.*|jupyter/.*|matplotlib/.*|ranger/.*|lf/.*|yazi/.*|vifm/.*|lazygit/.*|tig/.*|mpv/.*",
        r"sxhkd/.*|bspwm/.*|awesome/.*|qtile/.*|river/.*|niri/.*|waybar/.*|polybar/.*|rofi/.*|dunst/.*|openbox/.*|xmonad/.*|user-tmpfiles\.d/.*",
        r"starship\.toml|nushell/.*|elvish/.*|xonsh/.*|powershell/.*|zellij/.*|byobu/.*|mutt/.*|neomutt/.*|aerc/.*|gdb/.*|radare2/.*|sqlite3/.*",
        r"litecli/.*|pgcli/.*|mycli/.*|opencode/.*|claude/.*|Claude/.*|goose/.*|procps/.*|bat/config|mimeo/.*|helm/.*|gh/config\.yml|glab-cli/aliases\.yml|bundle/.*|composer/.*|k9s/.*|argocd/.*|xdg-terminals\.list|dconf/user",
    )
)
_LOADED_DATA = (
    r"(?:nvim|vim|emacs)/.*|bash-completion/.*|zsh/.*|fish/vendor_.*|nushell/.*|jupyter/.*|nautilus/scripts/.*|nautilus-python/.*"
    r"|kio/.*|kservices5/.*|gnome-shell/extensions/.*|plasma/.*|konsole/.*|cinnamon/.*|file-manager/actions/.*|thumbnailers/.*"
    r"|code-server/.*|gdb/.*|mime/packages/.*|pnpm/[^/]+|cargo/.*|helix/.*|zed/extensions/.*|JetBrains/.*|helm/.*|gh/extensions/.*|k9s/.*"
)
"""Patterns of files that programs load as code or take commands from, below ``~/.``, ``~/.config/`` and ``~/.local/share/``.
Caches, logs and data are not included.
"""

_BLOCK_DEVICE = (
    r"^/dev/(?:sd[a-z]|hd[a-z]|x?vd[a-z]|nvme|mmcblk|r?disk|mapper/|dm-|md\d|md/|loop\d|nbd|zd\d|zvol|sr\d|cdrom|pmem"
    r"|dasd|vg[\w-]*/"
    r"|ubi|mtd|fd\d|nst|st\d|by-|block/|root$|mem$|kmem$|port$)"
)

PATH_RULES: tuple[PathRule, ...] = (
    _rule(
        "self.settings",
        "block",
        r"(?:^|/)\.(?:config/|local/(?:share|state)/)?toolcrib(?:/|$)",
        "changes toolcrib's own settings or state",
        "/home/dev/.config/toolcrib/config.yaml",
        "/home/dev/toolcrib/config.yaml",
    ),
    _rule(
        "self.channel",
        "block",
        rf"(?:^|/)\.toolcrib-[\w*?{HOLE}]|(?:^|/)toolcrib-\d+-\w{{8}}(?:/|$)|^/(?:dev/shm|tmp|var/tmp)/toolcrib-[\d*?{HOLE}]",
        "changes the control folder of toolcrib's shells",
        "/dev/shm/toolcrib-123-a_b4c5d6/0/s",  # noqa: S108 - named, not used
        "/tmp/toolcrib-notes",  # noqa: S108 - as above
        _ALL,
    ),
    _rule(
        "process.descriptor",
        "ask-once",
        rf"^/proc/(?:self/(?:task/[^/]+/)?fd/(?![012]$)|thread-self/fd/(?![012]$)|1/fd/(?![012]$)|(?!1/|self/|thread-self/)[^/]+/"
        rf"(?:task/[^/]+/)?fd/)|^/proc/{HOLE}|^/dev/fd/\d\d",
        "writes into a process's open files",
        "/proc/4711/fd/10",
        "/proc/self/fd/2",
        frozenset({"write"}),
    ),
    _rule(
        "self.packages",
        "ask-once",
        rf"{HOLE}.*/(?:(?:site|dist)-packages(?:/|$)|(?:site|user)customize\.py$)|{HOLE}.*/lib/python\d[\d.]*/",
        "may change the packages of the Python that runs toolcrib: their location is only known when the command runs",
        f"/x/{HOLE}/site-packages/x.pth",
        "/home/dev/project/.venv/lib/python3.12/site-packages/x.pth",
    ),
    _rule(
        "terminal.device",
        "ask-once",
        rf"^/dev/(?:pts/[^/]+|tty\w*|console|vcsa?\w*|[^/]*{HOLE}.*)$",
        "writes to a terminal that a user may be reading: it could fake a prompt",
        "/dev/pts/3",
        "/dev/shm/pts",  # noqa: S108 - named, not used
        frozenset({"write", "permission"}),
    ),
    _rule(
        "device.write",
        "block",
        _BLOCK_DEVICE,
        "writes a block device or memory",
        "/dev/sda",
        "/dev/null",
        frozenset({"write"}),
    ),
    _rule(
        "device.change",
        "ask",
        r"^/dev/(?!shm/|fd/|pts/|std(?:in|out|err)$|tty\w*$|tcp/|udp/|null$|zero$|full$|u?random$|ptmx$|mqueue)",
        "changes a device file",
        "/dev/kvm",
        "/dev/pts/3",
        frozenset({"delete", "permission"}),
    ),
    _rule(
        "device.change",
        "ask",
        r"^/dev/(?:null|zero|full|u?random|std\w+)$",
        "changes a device file",
        "/dev/null",
        "/dev/pts/3",
        frozenset({"delete", "permission"}),
    ),
    _rule(
        "device.unknown",
        "ask",
        rf"^/dev/[^/]*{HOLE}",
        "writes a device that is only known when the command runs",
        f"/dev/{HOLE}",
        "/dev/null",
    ),
    _rule(
        "power.off",
        "block",
        r"^/proc/sysrq-trigger$",
        "restarts or halts the machine at once",
        "/proc/sysrq-trigger",
        "/proc/self/oom_score_adj",
    ),
    _rule(
        "persist.start-file",
        "ask-once",
        _HOME + rf"/\.(?:{'|'.join(map(re.escape, START_FILES))}|emacs\.d/(?:init|early-init)\.el|zsh/.*|bashrc\.d/.*|bash_it/.*"
        r"|config/(?:fish|autostart|systemd|environment\.d|git|direnv|nvim|bash|zsh|plasma-workspace/env|i3|sway|hypr|tmux)/.*"
        r"|config/fish|local/share/(?:systemd|dbus-1|applications)/.*|local/bin/.*|ipython/profile_\w+/startup/.*"
        r"|local/lib/python[\d.]+/site-packages/(?:(?:site|user)customize\.py|[^/]+\.pth))$",
        "changes what runs when a shell, editor or session starts",
        "/home/dev/.bashrc",
        "/home/dev/project/.editorconfig",
        frozenset({"write", "delete"}),
    ),
    _rule(
        "persist.start-file",
        "ask-once",
        _HOME + rf"/(?:\.(?:{_LOADED})|\.config/(?:{_LOADED_CONFIG})|\.local/share/(?:{_LOADED_DATA})|bin/[^/]+)$",
        "changes what a program loads when it starts",
        "/home/dev/.npmrc",
        "/home/dev/project/.npmrc",
        frozenset({"write", "delete"}),
    ),
    _rule(
        "persist.ssh",
        "ask-once",
        rf"(?:^|/)\.ssh(?:/(?:authorized_keys2?|config(?:\.d/.*)?|rc|environment|[^/]*{HOLE}.*|[^/]*[*?].*))?$|(?:^"
        rf"|/)authorized_keys2?$|^/etc/ssh/",
        "changes who may log in by ssh, or how",
        "/home/dev/.ssh/authorized_keys",
        "/home/dev/project/ssh.md",
        frozenset({"write", "delete"}),
    ),
    _rule(
        "persist.git-hooks",
        "ask-once",
        r"(?:^|/)\.git/(?:modules/.*|worktrees/[^/]*/)?(?:hooks(?:/(?!.*\.sample$)|$)|config$|config\.worktree$|commondir$|gitdir$"
        r"|info/attributes$)",
        "changes what git runs automatically",
        "/home/dev/project/.git/hooks/pre-commit",
        "/home/dev/project/.gitignore",
    ),
    _rule(
        "git.damage",
        "ask",
        r"(?:^|/)\.git/(?:HEAD|index|packed-refs|ORIG_HEAD|refs/[^*]*|logs/.*|objects/.*|shallow)$",
        "damages git's data",
        "/home/dev/project/.git/index",
        "/home/dev/project/.git/index.lock",
        frozenset({"delete"}),
    ),
    _rule(
        "persist.scheduled",
        "ask-once",
        r"^/etc/(?:cron|anacron|at\.)|^/var/(?:spool/(?:cron|at|anacron)|at/tabs|cron/tabs)(?:/|$)"
        r"|^(?:/etc|/lib|/usr/lib|/usr/local/lib|/run|/var/lib)/systemd/|/\.config/systemd/|/\.local/share/systemd/"
        r"|^/etc/(?:init\.d|init/|inittab|rc\d?\.d|rc\.local|rc\.conf|profile\.d|profile|bash\.bashrc|bashrc|zsh|zshrc|zshenv"
        r"|environment"
        r"|ld\.so\.preload|ld\.so\.conf|update-motd\.d|X11/Xsession\.d|xdg/autostart|udev/rules\.d|NetworkManager/dispatcher\.d"
        r"|network/if-up\.d|dbus-1|modules-load\.d|apt/apt\.conf\.d|logrotate\.d|periodic|launchd\.conf|emond\.d|runit|sv/|s6)"
        r"|/(?:LaunchAgents|LaunchDaemons|StartupItems)/|^/(?:usr/)?lib/udev/rules\.d/|^/usr/share/autostart",
        "installs a program that starts automatically",
        "/etc/cron.d/job",
        "/home/dev/project/cron.py",
        frozenset({"write", "delete"}),
    ),
    _rule(
        "system.accounts",
        "ask-once",
        r"^(?:/private)?/etc/(?:passwd|shadow|group|gshadow|master\.passwd|sudoers|sudoers\.d|doas\.conf|pam\.d|pam\.conf"
        r"|security|login\.defs"
        r"|subuid|subgid|polkit-1|krb5\.keytab|shells)(?:-|/|$)",
        "changes users or their rights",
        "/etc/sudoers.d/dev",
        "/home/dev/etc/passwd",
    ),
    _rule(
        "system.log",
        "ask",
        r"^(?:/private)?/var/log(?:/|$)|^/run/log(?:/|$)|^/var/(?:run|adm|account)/(?:[uw]tmpx?|btmp|wtmp|pacct)|^/run/utmp"
        r"|(?:^|/)\.(?:bash|zsh|sh|ksh|python|node_repl|mysql|psql|sqlite|rediscli|irb|php|dash|fish)_?_?history$|(?:^"
        r"|/)\.zhistory$"
        r"|(?:^|/)\.lesshst$|(?:^|/)fish_history$|(?:^|/)\.zsh_sessions|(?:^|/)\.histfile$",
        "erases or changes logs or history",
        "/var/log/syslog",
        "/home/dev/project/build.log",
    ),
    _rule(
        "container.socket",
        "ask-once",
        r"/(?:docker|containerd|podman|crio|cri-dockerd)(?:/[\w-]+)?\.sock$",
        "changes who may control the container engine, and with it the machine",
        "/var/run/docker.sock",
        "/home/dev/project/docker.py",
        frozenset({"write", "delete", "permission"}),
    ),
    _rule(
        "secret.keys",
        "ask",
        _HOME
        + r"/\.(?:aws|gnupg|kube|docker|azure|config/gcloud|password-store|local/share/keyrings|mozilla|netrc|git-credentials"
        r"|pgpass|ssh/(?!known_hosts|authorized_keys|config$|rc$|environment$)[^/]+)(?:/|$)",
        "deletes or replaces keys and credentials",
        "/home/dev/.aws/credentials",
        "/home/dev/project/aws.md",
        frozenset({"delete", "write"}),
    ),
    _rule(
        "secret.keys",
        "ask",
        _HOME + r"/\.(?:config/(?:gh/hosts\.yml|glab-cli/config\.yml|hub|op(?:/.*)?|rclone/rclone\.conf|doctl/config\.yaml"
        r"|(?:sops/)?age/.*|containers/auth\.json|hcloud/cli\.toml|stripe/config\.toml|netlify/config\.json|heroku/.*|1Password/.*"
        r"|Bitwarden[^/]*/.*)|vault-token|terraform\.d/credentials[^/]*|pypirc|s3cfg|boto|oci/.*|databrickscfg|my\.cnf"
        r"|cargo/credentials(?:\.toml)?|gem/credentials)$",
        "deletes or replaces keys and credentials",
        "/home/dev/.config/gh/hosts.yml",
        "/home/dev/.config/gh/themes.yml",
        frozenset({"delete", "write"}),
    ),
    _rule(
        "secret.read",
        "ask",
        _HOME + r"/\.(?:ssh(?:/(?!known_hosts|authorized_keys|config$|rc$|environment$|[^/]*\.pub$)[^/]+)?|aws(?:/(?:credentials"
        r"|sso(?:/.*)?|cli(?:/.*)?))?|netrc|pgpass|git-credentials|docker(?:/config\.json)?|kube(?:/config)?|pypirc|my\.cnf"
        r"|gnupg(?:/(?:private-keys.*|secring.*))?|password-store(?:/.*)?|local/share/keyrings(?:/.*)?|vault-token|s3cfg|boto"
        r"|databrickscfg|oci(?:/.*)?|azure(?:/(?:\w*[tT]oken\w*|msal\w*|service_principal\w*)[^/]*)?|terraform\.d/credentials[^/]*"
        r"|(?:cargo|gem)/credentials(?:\.toml)?|config/(?:gh(?:/hosts\.yml)?|glab-cli/config\.yml|hub|op(?:/.*)?|rclone/rclone\.conf"
        r"|gcloud(?:/(?:credentials\.db|access_tokens\.db|application_default_credentials\.json|legacy_credentials/.*))?"
        r"|doctl/config\.yaml|(?:sops/)?age/.*|containers/auth\.json|hcloud/cli\.toml|stripe/config\.toml|git/credentials))$",
        "reads keys or credentials, which the model would see",
        "/home/dev/.netrc",
        "/home/dev/.ssh/id_rsa.pub",
        frozenset({"read"}),
    ),
    _rule(
        "system.file",
        "ask",
        r"^(?:/private)?/(?:etc|boot|usr|bin|sbin|lib|lib32|lib64|libx32|root|sys|efi|System|Library|Applications|nix|snap"
        r"|Windows"
        r"|var/(?:lib|spool|backups?|mail|db|named|cache|opt|local|root)|proc/(?:sys|irq|acpi|bus|fs|kcore|kallsyms|sysrq\w+)"
        r"|run/(?:systemd|docker|containerd|udev|lock|sshd|initramfs)|cdrom|lost\+found|swapfile|vmlinuz|initrd)(?:[/.]|$)",
        "changes a system file",
        "/etc/hosts",
        "/home/dev/project/etc/hosts",
        _ALL,
    ),
    _rule(
        "system.service-file",
        "ask",
        r"^/(?:opt|srv|var/www)(?:/|$)",
        "deletes or exposes data of services",
        "/srv/app/data.db",
        "/home/dev/project/srv/a",
        frozenset({"delete", "permission"}),
    ),
)
