"""Commands in the arguments of programs without a table: ``chamber exec prod -- rm -rf x``, ``pueue add 'rm -rf x'``.

An unknown program may run another one. Each of its words that names a program known to the rules is followed as the start of a
command. So is a word that is a whole command. A false match costs nothing, because only a rule's finding makes toolcrib ask.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning import interpreters, owned, preset, tables
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import HOLE, Value, names
from tools.judge.meaning.walk import Walker
from tools.judge.options import path_of
from tools.judge.paths import root_of

Values = Sequence[Value]

_MOST = 48
"""Maximum number of places in one command where the judge follows its arguments; if there are more, the user is asked."""

_LAUNCHERS = names(
    "az aws gcloud heroku fly flyctl railway infisical nix limactl lima multipass wsl distrobox toolbox toolbx vercel netlify"
    " supabase doctl hcloud openstack platform upsun dokku kamal wezterm kitty alacritty konsole orb colima dotenv op doppler"
    " vagrant podman-compose devbox direnv mise asdf pixi poetry pdm hatch rye uv pipenv conda mamba bundle sail lando ddev"
    " entr nomad consul watchexec nodemon concurrently hyperfine xvfb-run systemd-run machinectl incus lxc dtach"
    " abduco pueue nq tsp"
)
"""Known programs that run commands in ways missing from the tables. Their words after ``--``, ``run`` etc. are followed."""

_DIRECT = names("dotenv limactl sshpass chpst")
"""Known programs that take a command at any place."""

_ENDS = frozenset({"--"})
_RUNS = names("-- exec run x with shell cmd command do start -c -e -x --command --cmd --exec --run -C")
"""Words that come before a command, in any program."""

_TEXTS = names(
    "-- --command --exec --execute --run --wrap --run-command --ssh-command --scripts --script --remote-command -C -c -e -x"
)
"""Options of unknown programs whose values may be whole commands."""

TALKS = names(
    "echo printf print cowsay cowthink figlet banner toilet lolcat say espeak notify-send logger wall write mail mailx mutt"
    " sendmail zenity kdialog yad dialog whiptail gum xmessage slack man info tldr cheat navi which whereis whatis apropos type"
    " help locate mlocate plocate grep egrep fgrep zgrep zegrep ugrep rg ag ack git-grep pgrep pkill killall pidof look strings"
    " jq yq jo bat cat less more most head tail tac nl wc diff cmp comm file stat ls ll la tree du df touch mkdir rmdir"
    " basename dirname realpath readlink sort uniq cut tr tee paste join column fold fmt pr od xxd hexdump md5sum sha1sum"
    " sha256sum cksum seq test expr bc dc shellcheck shfmt explainshell thefuck fuck history fc complete compgen hub gh glab"
    " tea git hg svn jj bzr darcs fossil yadm jira bspc bd todo.sh todo topydo jrnl nb zk dnote toolcrib claude codex aider llm"
    " sgpt gemini ollama mods copilot chatgpt opencode goose cursor-agent curl wget http https xh httpie xclip xsel pbcopy"
    " wl-copy code subl vi vim nvim nano emacs micro hx open xdg-open apt-cache apt-file apt-mark apt-get apt aptitude dpkg rpm"
    " dnf yum zypper pacman yay paru pamac emerge apk brew port snap flatpak choco scoop winget npm pnpm yarn pip pip3 pipx gem"
    " cargo go composer pkg opam stack cabal luarocks nuget dotnet mvn gradle make cmake ninja meson just task rake apropos ln"
    " last lastb lastlog who w users uptime"
    " cp mv rm install chmod chown chgrp tar zip unzip gzip rsync scp sftp dd kill systemctl service journalctl crontab at"
)
"""Programs whose words are data: they print, search, store or download them."""

_NAMED = Regex(
    r"-{1,2}(?:[a-z]+-)*(?:pager|command|exec|execute|editor|shell|program|wrapper|launcher|hook|browser|opener|bin)(?:-[a-z]+)*"
)
"""Options that name a program to run, for any program."""
_TAKES = Regex(
    r"(?:-{1,2}|[\w.-]+\.)(?:[a-z]+-)*(?:renderer|toolexec|helper|driver|interpreter|runner|linker|rsh|process|pager|command|exec"
    r"|editor|shell|program|wrapper|launcher|hook|browser|opener|rustc|rustdoc)(?:-[a-z]+)*"
)
"""Options and settings that give a program a script to run if their value is one of the session's own files."""
_TAKES_ENV = (
    *("CC", "CXX", "CPP", "LD", "AR", "FC"),
    *("HELM_POST_RENDERER", "CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER"),
)
"""Variables that give a program such a script."""
_SETTINGS = names("pager editor browser shell")
"""Settings that name a program to run: ``gh config set pager COMMAND``."""
_SETS = names("config set")
_CRITICAL = names("rm shred srm rimraf find chmod chown chgrp mv truncate mkfs wipefs dd")
"""Programs that may destroy a home or a system root. Their names are searched for even among the words of known programs."""

_VERBS = names(
    "start stop restart reload halt reboot shutdown poweroff kill wipe erase del mount umount service restore set unset install"
    " init run exec remove manage migrate at batch import script drop power host head tail history now prune source export"
    " enable expose fetch format render replicate sort watch make go test time open move copy dash base arc seq split link"
    " links unlink manage console daemon cancel modal metal platform portal profiles read readonly declare local eject env"
    " format image image http nova sail sam screen shell code config console cluster nohup nice all cat less rev ed ex view dc"
    " R trash rename transfer purge user group network red star strace net star edit select reset clean reg passwd adduser"
    " deluser pkg openssh dropbear where lt"
)
"""Names of programs that are ordinary words as well: verbs and nouns in subcommands of others."""

_COMMAND = Regex(r"\s*(?:[A-Za-z_]\w*=\S*\s+)*([\w./+-]+)\s+(?=\S)")
_PARTS = Regex(r"&&|\|\||[;|\n]")
_QUOTED = Regex(r'"((?:[^"\\]|\\.){4,})"')


def follow(it: Walker, state: State, name: str, argv: Values) -> None:
    """Record the acts of the commands among the arguments of ``name``, on a copy of ``state``. Unreadable words are skipped."""
    taken = [*_taken(it, state, argv)]
    if len(argv) < 2 and not taken:
        return
    texts, tails = _named(it, argv)
    tails += taken
    if name not in TALKS and tables.interpreter(name) is None:
        unheard = name in _DIRECT or (name not in it.programs and not _runs_others(name))
        if not path_of(name) or name in _LAUNCHERS:
            texts += _texts(it, name, argv, unheard)
            tails += _tails(it, name, argv, unheard)
        if not unheard:
            tails += _critical(it, state, name, argv)
    if not (texts or tails) or it.too_deep("commands in arguments are nested too deeply"):
        return
    if len(texts) + len(tails) > _MOST:
        it.fault("size", "its arguments may contain too many commands")
        return
    faults = dict(it.found.faults)
    with it.inside() as inner:
        inner.wrappers = (*inner.wrappers, name)
        inner.depth += 1
        followed = inner.followed = inner.followed if inner.followed is not None else set()
        for text in dict.fromkeys(texts):
            it.text(text.text, _aside(state))
        for tail in tails:
            place = (len(tail), inner.place, tuple(tail))
            if place not in followed:
                followed.add(place)
                it.program(_aside(state), tail)
    it.found.faults.clear()
    it.found.faults.update(faults)


def _aside(state: State) -> State:
    child = state.copy()
    child.capture, child.out = False, None
    return child


def _known(it: Walker, name: str) -> bool:
    return name in it.programs or _is_described(name)


@functools.lru_cache(maxsize=2_048)
def _is_described(name: str) -> bool:
    if _runs_others(name) or name in interpreters.SHELLS:
        return True
    return bool(path_of(name)) or tables.interpreter(name) is not None or name.startswith(("mkfs.", "fsck."))


def _runs_others(name: str) -> bool:
    return name in tables.WRAPPERS.rows or name in tables.SPECIALS.rows


def _named(it: Walker, argv: Values) -> tuple[list[Value], list[list[Value]]]:
    """Return the texts for a shell, and the tails of ``argv``, that options and settings name as programs to run. All other words
    of the program may be data.
    """
    texts: list[Value] = []
    tails: list[list[Value]] = []
    sets = any(value.text in _SETS for value in argv[1:4])
    for at, value in enumerate(argv[1:], start=1):
        option, assigned, given = value.text.partition("=")
        if assigned and _NAMED.fullmatch(option):
            value = value._replace(text=given, shown="")
        elif not _NAMED.fullmatch(argv[at - 1].text) and not (sets and argv[at - 1].text in _SETTINGS):
            continue
        if any(_begins(it, part) for part in _PARTS.split(value.text)):
            texts.append(value)
        elif not assigned and at < len(argv) - 1 and _known(it, value.text.rpartition("/")[2]):
            tails.append(list(argv[at:]))
    return texts, tails


def _taken(it: Walker, state: State, argv: Values) -> Iterator[list[Value]]:
    """Yield the session's own files that options, settings and variables name as programs: ``--post-renderer ./x.sh``."""
    named = [value.text for value in preset.given(it, state, _TAKES_ENV)]
    for before, value in itertools.pairwise(argv):
        option, assigned, given = value.text.partition("=")
        if assigned and (_TAKES.fullmatch(option) or option in _TAKES_ENV):
            named.append(given)
        elif _TAKES.fullmatch(before.text):
            named.append(value.text)
    for given in named:
        words = given.strip("'\"").split()
        if words and owned.content(it, state, words[0]) is not None:
            yield [Value(words[0] if "/" in words[0] else f"./{words[0]}"), *map(Value, words[1:])]


def _critical(it: Walker, state: State, name: str, argv: Values) -> list[list[Value]]:
    """Return the arguments from each destructive program's name on, if a home or a system root follows."""
    if _runs_others(name) and name not in _LAUNCHERS:
        return []
    at = [at for at, value in enumerate(argv[1:], start=1) if value.text.rpartition("/")[2] in _CRITICAL]
    return [list(argv[one:]) for one in at if any(root_of(value, state.cwds, it.now.home) for value in argv[one + 1 :])]


def _tails(it: Walker, name: str, argv: Values, unheard: bool) -> Iterator[list[Value]]:
    """Yield the arguments from each program's name on; for a known program only after a word that announces a command."""
    behind = _RUNS if unheard or name in _LAUNCHERS else _ENDS
    last = len(argv) - 1
    for at in range(1, last + 1):
        text = argv[at].text
        if not text[:1].isalpha() and text[:1] not in ("/", "."):
            continue
        program = text.rpartition("/")[2]
        if not program[:1].isalnum() or not _known(it, program):
            continue
        if argv[at - 1].text in behind or (unheard and at < last and program.rstrip("0123456789.") not in _VERBS):
            yield list(argv[at:])


def _texts(it: Walker, name: str, argv: Values, unheard: bool) -> Iterator[Value]:
    """Yield whole commands that are one word, or the value after the ``=`` of an option."""
    if _runs_others(name) and name not in _LAUNCHERS:
        return
    for at, value in enumerate(argv[1:]):
        text = value.text
        if " " not in text or HOLE in text[:1]:
            continue
        before = argv[at].text
        if text[:2] == "--":
            before, _, text = text.partition("=")
        if unheard and before[:1] == "-" and before not in _TEXTS and not _NAMED.fullmatch(before):
            continue
        pieces = [text, *(match[1] for match in _QUOTED.finditer(text))] if '["' in text else [text]
        for piece in pieces:
            if any(_begins(it, part) for part in _PARTS.split(piece)):
                yield value._replace(text=piece, shown="")


def _begins(it: Walker, text: str) -> bool:
    """Return whether a text begins with a known program and is not like a sentence."""
    match = _COMMAND.match(text)
    program = match[1].rpartition("/")[2] if match is not None else ""
    return bool(program) and _known(it, program) and (program not in _VERBS or " -" in text)
