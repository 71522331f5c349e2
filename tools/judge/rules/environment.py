"""Rules: variables that make programs load code, or that disable a check."""

from __future__ import annotations

import functools
import re

from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import HOLE, Taint, Value
from tools.judge.rules._hosts import LOCAL_URL
from tools.judge.rules.persistence import plain_editor
from tools.judge.table import ActView, Test, opt, rule

_LOADERS = frozenset(
    (
        "LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH DYLD_FRAMEWORK_PATH BASH_ENV ENV"
        " PROMPT_COMMAND PYTHONSTARTUP PYTHONBREAKPOINT PERL5OPT PERL5DB PERL5LIB SHELL RUBYOPT RUBYLIB GIT_SSH GIT_SSH_COMMAND"
        " GIT_EXTERNAL_DIFF GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS GIT_EXEC_PATH GIT_PROXY_COMMAND GIT_TEMPLATE_DIR"
        " GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS GIT_ALTERNATE_OBJECT_DIRECTORIES PYTHONHOME"
        " PYTHONUSERBASE PYTHONINSPECT JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS MAVEN_OPTS GRADLE_OPTS LESSOPEN"
        " LESSCLOSE MANPAGER GCONV_PATH GLIBC_TUNABLES NODE_PATH LUA_INIT LUA_PATH LUA_CPATH R_PROFILE R_PROFILE_USER R_ENVIRON"
        " PHPRC PHP_INI_SCAN_DIR ERL_AFLAGS ERL_FLAGS ERL_ZFLAGS VIMINIT EXINIT MYVIMRC VIMRUNTIME INPUTRC ZDOTDIR GNUPGHOME"
        " OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES SSL_ENGINES PKCS11_MODULE TCLLIBPATH QT_PLUGIN_PATH GTK_MODULES GTK_PATH"
        " GIO_EXTRA_MODULES XDG_CONFIG_DIRS XDG_DATA_DIRS MAKEFLAGS GNUMAKEFLAGS RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER"
        " CARGO_BUILD_RUSTC_WRAPPER FPATH CDPATH COMPILER_PATH GCC_EXEC_PREFIX npm_config_node_options npm_config_script_shell"
        " NPM_CONFIG_SCRIPT_SHELL SSH_AUTH_SOCK TMUX STY DBUS_SESSION_BUS_ADDRESS DOCKER_HOST HGEDITOR HGPAGER SVN_EDITOR"
        " SVN_SSH CVS_RSH RSYNC_RSH GIT_SEQUENCE_EDITOR BROWSER RUSTC RUSTDOC CARGO_BUILD_RUSTC CARGO_BUILD_RUSTDOC"
        " CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER HELM_PLUGINS TF_CLI_CONFIG_FILE CLOUDSDK_PYTHON"
    ).split()
)
_EDITORS = frozenset(
    [
        "PAGER",
        "GIT_PAGER",
        "EDITOR",
        "VISUAL",
        "GIT_EDITOR",
        "GIT_SEQUENCE_EDITOR",
        "MANPAGER",
        "BROWSER",
        "HGEDITOR",
        "SVN_EDITOR",
        "SYSTEMD_PAGER",
        "FCEDIT",
        "KUBE_EDITOR",
        "KUBE_EXTERNAL_DIFF",
        "DELTA_PAGER",
        "BAT_PAGER",
        "PSQL_EDITOR",
        "PSQL_PAGER",
        "AWS_PAGER",
        "GH_PAGER",
        "GH_EDITOR",
        "GH_BROWSER",
        "SUDO_EDITOR",
    ]
)
_HARMLESS = {
    "LD_LIBRARY_PATH": Regex(r"(?:/usr/|/opt/|/lib|/nix/|\$?\{?HOME|/home/[^/]+/(?:\.local|miniconda|anaconda|\.\w+)/).*"),
    "DYLD_LIBRARY_PATH": Regex(r"(?:/usr/|/opt/).*"),
    "GIT_CONFIG_GLOBAL": Regex(r"/dev/null"),
    "GIT_CONFIG_SYSTEM": Regex(r"/dev/null"),
    "PYTHONINSPECT": Regex(r"1?"),
    "PYTHONBREAKPOINT": Regex(
        r"0|(?:i?pdb|pudb|pdbpp|bpdb|remote_pdb|web_pdb|celery\.contrib\.rdb|IPython\.core\.debugger)\.\w+|"
    ),
    "JAVA_TOOL_OPTIONS": Regex(r"(?!.*-(?:javaagent|agentlib|agentpath|XX:OnError|XX:OnOutOfMemoryError)).*"),
    "LD_PRELOAD": Regex(
        r"(?:/usr)?/lib(?:/[\w-]+)*/lib(?:jemalloc|tcmalloc|asan|tsan|ubsan|mimalloc|eatmydata|faketime"
        r"|segfault)[\w.]*(?:\.so[\d.]*)|libfaketime\S*"
    ),
    "NODE_PATH": Regex(r"(?!/tmp|/dev/shm|/var/tmp).*"),
    "PERL5LIB": Regex(r"(?!/tmp|/dev/shm|/var/tmp).*"),
    "RUBYLIB": Regex(r"(?!/tmp|/dev/shm|/var/tmp).*"),
    "MAKEFLAGS": Regex(r"(?!.*(?:--eval|SHELL=|-f)).*"),
    "RUBYOPT": Regex(r"(?:-W\S*|--(?:yjit|jit|disable-\S+|enable[-=]\S+|zjit)|-w|\s|-E\S*|-Ku)*"),
    "PERL5OPT": Regex(r"(?:-[wWTtCX]\S*|\s)*"),
    **dict.fromkeys(("RUSTC", "RUSTDOC", "CARGO_BUILD_RUSTC", "CARGO_BUILD_RUSTDOC"), Regex(r"(?:/usr/\S*/)?[\w.-]*")),
    "CLOUDSDK_PYTHON": Regex(r"(?:/(?:usr|opt)/\S*/)?[\w.-]*"),
    "HELM_PLUGINS": Regex(r"(?:/home/[^/]+|/root|/usr|/opt)/.*|"),
    "TF_CLI_CONFIG_FILE": Regex(r"/dev/null|"),
    "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER": Regex(r"(?:\S*/)?(?:sccache|ccache|clippy-driver)|"),
    "RUSTC_WRAPPER": Regex(r"(?:\S*/)?(?:sccache|ccache)|"),
    "CARGO_BUILD_RUSTC_WRAPPER": Regex(r"(?:\S*/)?(?:sccache|ccache)|"),
    "GIT_SSH_COMMAND": Regex(
        r"(?:\S*/)?ssh(?: (?!.*(?:ProxyCommand|LocalCommand|KnownHostsCommand|PKCS11|StrictHostKeyChecking=no|[;&|`$])).*)?"
    ),
    "GIT_SSH": Regex(r"(?:/usr/bin/)?ssh"),
    "GIT_ASKPASS": Regex(r"(?:/bin/)?(?:true|echo|:)|"),
    "SSH_ASKPASS": Regex(r"(?:/bin/)?(?:true|echo|false|:)|"),
    "GNUPGHOME": Regex(r".*"),
    "ZDOTDIR": Regex(r"(?!/tmp|/dev/shm|\.).*"),
    "XDG_DATA_DIRS": Regex(r".*"),
    "XDG_CONFIG_DIRS": Regex(r"/etc/xdg.*"),
    "MAVEN_OPTS": Regex(r"(?!.*-javaagent).*"),
    "GRADLE_OPTS": Regex(r"(?!.*-javaagent).*"),
    "_JAVA_OPTIONS": Regex(r"(?!.*-javaagent).*"),
    "JDK_JAVA_OPTIONS": Regex(r"(?!.*-javaagent).*"),
    "DOCKER_HOST": Regex(r"unix://.*|tcp://(?:localhost|127\.0\.0\.1).*|"),
    "LESSOPEN": Regex(r"\|(?:/usr/bin/)?(?:lesspipe(?:\.sh)?|src-hilite-lesspipe\.sh) %s|"),
    "OPENSSL_CONF": Regex(r"/etc/ssl/\S*|/dev/null"),
    "CDPATH": Regex(r".*"),
    "FPATH": Regex(r"(?!/tmp|\.).*"),
    "ERL_AFLAGS": Regex(r"-kernel shell_history \S+"),
    "ENV": Regex(r"[\w-]*"),  # `ENV=production` names a program's stage
    "TMUX": Regex(r""),
    "STY": Regex(r""),
    "SSH_AUTH_SOCK": Regex(r"(?:/run/user|/tmp/ssh-|/home/).*|"),
    "GIT_TEMPLATE_DIR": Regex(r""),
    "PYTHONHOME": Regex(r"/usr.*|"),
    "SHELL": Regex(
        r"(?:/(?:usr/(?:local/)?|opt/homebrew/|nix/\S+/|run/current-system/sw/)?s?bin/)?(?:\w{0,3}sh|nu|false|true|nologin)|"
    ),
}
"""Values of variables in ``_LOADERS`` that make programs load no foreign code."""

_TLS = {
    "NODE_TLS_REJECT_UNAUTHORIZED": Regex(r"0"),
    "PYTHONHTTPSVERIFY": Regex(r"0"),
    "GIT_SSL_NO_VERIFY": Regex(r"(?i:true|1|yes|on)"),
    "CURL_CA_BUNDLE": Regex(r""),
    "REQUESTS_CA_BUNDLE": Regex(r""),
    "SSL_CERT_FILE": Regex(r"/dev/null|"),
    "npm_config_strict_ssl": Regex(r"false|0"),
    "NPM_CONFIG_STRICT_SSL": Regex(r"false|0"),
    "PIP_TRUSTED_HOST": Regex(r".+"),
    "GONOSUMDB": Regex(r"\*"),
    "GONOSUMCHECK": Regex(r"1"),
    "GOINSECURE": Regex(r"\*"),
    "GOFLAGS": Regex(r".*-insecure.*"),
    "HOMEBREW_NO_VERIFY_ATTESTATIONS": Regex(r"1"),
    "AWS_NO_VERIFY_SSL": Regex(r".+"),
    "DOCKER_CONTENT_TRUST": Regex(r"0"),
    "KUBECTL_INSECURE_SKIP_TLS_VERIFY": Regex(r"true"),
}
_NO_HISTORY = Regex(r"|0|/dev/null")
_NODE_LOADS = Regex(r"(?:^|\s)(?:-r|--require|--import|--loader|--experimental-loader|--inspect=0\.0\.0\.0)\b")
_ASSIGNS = Regex(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)
_FOREIGN_PATH = Regex(
    r"(?:/tmp|/var/tmp|/dev/shm)(?:/(?![^:]*(?:env[\w.-]*|/\.local)/bin(?::|$))|:|$)"
    r"|\.{1,2}(?:/(?!node_modules/\.bin|bin(?::|$)|\.?venv/bin|vendor/bin|scripts)|:|$)|:|$"
)


def assigned(view: ActView) -> list[tuple[str, Value]]:
    """Return the variables that the command sets and a row is about, with values: by a prefix, ``env``, ``export`` and similar
    builtins.
    """
    if view.assigned is not None:
        return view.assigned
    found = view.assigned = [(name, given) for name, given in view.act.environment.items() if _concerns(name)]
    if view.name in _SETTERS:
        for given in view.act.argv[1:]:
            match = _ASSIGNS.match(given.text)
            if match is not None and _concerns(match[1]):
                found.append((match[1], given._replace(text=match[2], shown="")))
    return found


@functools.lru_cache(maxsize=1_024)
def _concerns(name: str) -> bool:
    """Return whether a row may be about a variable of this name. Cached: a script may export a variable to many commands."""
    return name in _EDITORS or name in _LOADERS or name in _TLS or name in _OTHERS or name.startswith(_BEGINNINGS)


_OTHERS = frozenset(
    "NODE_OPTIONS PYTHONPATH PATH GOFLAGS GIT_ALLOW_PROTOCOL PS4 PS1 PS0 XDG_CONFIG_HOME XDG_STATE_HOME HOME HISTFILE HISTSIZE"
    " HISTFILESIZE BASH_CMDS".split()
)
_BEGINNINGS = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "BASH_FUNC_", "TOOLCRIB_", "CARGO_TARGET_", "AWS_ENDPOINT_URL")
_SETTERS = frozenset({"export", "declare", "typeset", "readonly", "local", "env", "set", "setx", "setenv"})
NAMES = "@environment export declare typeset readonly local env setx"
"""Names of the rows about variables: any command with variables of its own, and the commands that set variables."""


def loads(name: str, given: Value) -> bool:
    """Return whether a variable with this value makes programs load or run something."""
    text = given.text
    if name in _EDITORS:
        return not plain_editor(text) and text != HOLE and bool(text)
    if name in _LOADERS and text == HOLE and given.taint & Taint.OUTSIDE:
        return False  # it restores or passes on a value of the user's own environment
    if name in _LOADERS:
        harmless = _HARMLESS.get(name)
        return bool(text) and (harmless is None or harmless.fullmatch(text) is None)
    if name == "NODE_OPTIONS":
        return _NODE_LOADS.search(text) is not None
    if name == "PYTHONPATH":
        return re.match(r"(?:/tmp|/var/tmp|/dev/shm)(?:/|:|$)", text) is not None
    if name == "PATH":
        return _FOREIGN_PATH.match(text) is not None and text != ""
    if name == "GOFLAGS":
        return "-toolexec" in text
    if name.startswith("CARGO_TARGET_"):
        return name.endswith(("_RUNNER", "_LINKER")) and re.fullmatch(r"(?:/usr/\S*/)?[\w.-]*", text) is None
    if name == "GIT_ALLOW_PROTOCOL":
        return "ext" in text.split(":") or HOLE in text
    if name == "PS4" or name == "PS1" or name == "PS0":
        return "$(" in text or "`" in text
    return name.startswith(("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "BASH_FUNC_"))


def _any_loads(view: ActView) -> bool:
    return _loaded(view) != ""


def _loaded(view: ActView) -> str:
    """Return the name of the first variable that makes programs load something, or ""."""
    return next((name for name, given in assigned(view) if loads(name, given) and not _names_own_modules(view, name, given)), "")


def _names_own_modules(view: ActView, name: str, given: Value) -> bool:
    """Return whether this is PYTHONPATH and begins with the working folder or one below it, as in a project below /tmp."""
    first = given.text.partition(":")[0] + "/"
    cwds = view.act.cwds
    return name == "PYTHONPATH" and bool(cwds) and all(cwd.count("/") > 1 and first.startswith(f"{cwd}/") for cwd in cwds)


def _no_tls(view: ActView) -> bool:
    return any(name in _TLS and _TLS[name].fullmatch(given.text) is not None for name, given in assigned(view))


def _sends_elsewhere(view: ActView) -> bool:
    endpoints = [given.text for name, given in assigned(view) if name.startswith("AWS_ENDPOINT_URL")]
    return any(text and text != HOLE and LOCAL_URL.fullmatch(text) is None for text in endpoints)


def _own(view: ActView) -> bool:
    return any(
        name.startswith("TOOLCRIB_") and not name.startswith(("TOOLCRIB_LOG", "TOOLCRIB_CORPORA", "TOOLCRIB_TEST"))
        for name, _ in assigned(view)
    )


def _elsewhere(view: ActView) -> bool:
    return any(name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME") for name, _ in assigned(view)) or (
        any(name == "HOME" for name, _ in assigned(view)) and view.name in ("toolcrib", "export", "declare")
    )


def _history(view: ActView) -> bool:
    return any(name[:4] == "HIST" and _NO_HISTORY.fullmatch(given.text) is not None for name, given in assigned(view))


RULES = (
    rule(
        "code.loading-env",
        "ask-once",
        NAMES,
        Test(_any_loads),
        "makes other programs load code",
        yes=(
            "env LD_PRELOAD=./x.so id",
            "export BASH_ENV=/tmp/x",
            "export PATH=.:/usr/bin",
            "export PATH=/tmp/x:/usr/bin",
            "export PATH=/tmp/x/bin:/tmp/.venv/bin:/usr/bin",
            "env GIT_SSH_COMMAND='sh -c x' git fetch",
            "export NODE_OPTIONS='--require ./x.js'",
            "export PAGER='sh -c x'",
            "env PYTHONSTARTUP=/tmp/x.py python3 -i",
            "export PERL5OPT=-Mevil",
            "RUSTC=./x.sh cargo build",
            "GOFLAGS=-toolexec=./x.sh go build",
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=./x.sh cargo run",
            "TF_CLI_CONFIG_FILE=./x.tfrc terraform plan",
        ),
        no=(
            "env GIT_PAGER=cat git log",
            "export EDITOR=vim",
            "export PATH=/opt/x/bin:/usr/bin",
            "export PATH=/home/dev/.local/bin:/usr/bin",
            "env NODE_OPTIONS=--max-old-space-size=4096 npm run build",
            "env PYTHONPATH=src pytest",
            "env PYTHONPATH=. python a.py",
            "export ENV=production",
            "GOFLAGS=-mod=mod go build",
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc cargo build",
            "env GIT_SSH_COMMAND='ssh -i key' git fetch",
            "export PATH=./node_modules/.bin:/usr/bin",
            "export PATH=/tmp/p/.venv/bin:/usr/bin",
            "export PATH=/tmp/home/.local/bin:/usr/bin",
        ),
        at=_loaded,
        dry=False,
    ),
    rule(
        "code.other-program",
        "ask-once",
        "hash",
        opt("-p"),
        "makes a name run another program from now on",
        yes="hash -p ./x ls",
        no=("hash -r", "hash git"),
        dry=False,
    ),
    rule(
        "code.other-program",
        "ask-once",
        "@environment",
        Test(lambda view: any(name == "BASH_CMDS" for name, _ in assigned(view))),
        "makes a name run another program from now on",
        yes=("BASH_CMDS[ls]=./x",),
        no=("CMDS=x",),
        dry=False,
    ),
    rule(
        "security.tls-off",
        "ask",
        NAMES,
        Test(_no_tls),
        "turns TLS verification off",
        yes=("export NODE_TLS_REJECT_UNAUTHORIZED=0", "env GIT_SSL_NO_VERIFY=true git clone x"),
        no=("export NODE_TLS_REJECT_UNAUTHORIZED=1", "env REQUESTS_CA_BUNDLE=/etc/ssl/ca.pem python a.py"),
        dry=False,
    ),
    rule(
        "network.endpoint",
        "ask-once",
        NAMES,
        Test(_sends_elsewhere),
        "makes a cloud's tools send their uploads to another host",
        yes=("AWS_ENDPOINT_URL=https://x.test aws s3 ls", "export AWS_ENDPOINT_URL_S3=http://x.test:9000"),
        no=("AWS_ENDPOINT_URL=http://localhost:4566 aws s3 ls", "AWS_REGION=eu-west-1 aws s3 ls"),
        dry=False,
    ),
    rule(
        "log.erase",
        "ask",
        "@environment",
        Test(_history),
        "turns the shell's history off",
        yes="env HISTFILE=/dev/null bash",
        no="env HISTSIZE=1000 bash",
        dry=False,
    ),
    rule(
        "self.approval",
        "block",
        NAMES,
        Test(_own),
        "runs toolcrib with other settings; only a user may do that",
        yes=("export TOOLCRIB_CONFIG=/tmp/x.yaml", "env TOOLCRIB_YOLO_MODE=1 toolcrib chat"),
        no=("export TOOLCRIB_LOG=debug", "export TOOLS=1"),
        dry=False,
    ),
    rule(
        "self.environment",
        "ask",
        NAMES,
        Test(_elsewhere),
        "programs, including toolcrib, would run with other settings",
        yes=("export XDG_CONFIG_HOME=/tmp/x",),
        no=("export XDG_CACHE_HOME=/tmp/x",),
        dry=False,
    ),
)
