"""Programs that run another command: its place in their arguments, and how it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import Taint, Value, joined, unknown

ASSIGNMENT = Regex(r"([A-Za-z_]\w*)=", re.ASCII)

Values = Sequence[Value]


@dataclass(slots=True)
class Inner:
    """A command inside another: ``argv``, or ``text`` that a shell reads.

    ``place``: the other machine or container that it runs in. ``fed``: it gets more arguments from a list. ``own``: the wrapper
    does something itself. ``environment``: variables that are set for it. ``bare``: it does not inherit the wrapper's variables.
    ``cwd``: its first working folder. ``stdin``: its input, if that is not the wrapper's. ``mounts``: the only folders of the
    host that it sees, by their names inside; ``copied``: they are copies.
    """

    argv: list[Value] = field(default_factory=list)
    text: Value | None = None
    place: str = ""
    fed: bool = False
    own: bool = False
    environment: dict[str, Value] = field(default_factory=dict)
    bare: bool = False
    cwd: Value | None = None
    stdin: Value | None = None
    zero: list[Value] = field(default_factory=list)
    mounts: list[tuple[str, Value]] = field(default_factory=list)
    copied: bool = False


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A program that runs the command in its arguments.

    ``valued``: options with a separate value. ``skip``: number of operands before the command. ``sub``: subcommands that must
    come first. ``text``: the rest is joined and read by a shell. ``place``: ``ssh:{}``, with the first skipped operand in it.
    ``own``: it also does something itself. ``textual``: options whose value is a text that a shell reads. ``sets``: it takes
    ``NAME=value`` words. ``dashed``: the command comes only after ``--``. ``single``: the command is one word, even if that looks
    like an option. ``goes``: options for the first working folder.
    """

    valued: frozenset[str]
    skip: int
    sub: tuple[frozenset[str], ...]
    text: bool
    place: str
    own: bool
    textual: frozenset[str]
    sets: bool
    dashed: bool
    single: bool
    goes: frozenset[str]


def _wrapper(
    valued: str = "",
    skip: int = 0,
    sub: str = "",
    *,
    text: bool = False,
    place: str = "",
    own: bool = False,
    textual: str = "",
    sets: bool = False,
    dashed: bool = False,
    single: bool = False,
    goes: str = "",
) -> Wrapper:
    first = tuple(frozenset(word.split("|")) for word in sub.split())
    told, folders = frozenset(textual.split()), frozenset(goes.split())
    return Wrapper(frozenset(valued.split()) | folders, skip, first, text, place, own, told, sets, dashed, single, folders)


_IN_CONTAINER = "-u -w -e -l --user --workdir --env --env-file --index --detach-keys"
_SUDO = "-u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt --chdir --chroot --close-from"
_SYSTEMD = (
    "-u -p -M -H -G -E -d --unit --property --uid --gid --on-calendar --on-active --working-directory --setenv --slice "
    "--description"
)
_KUBE = "-n --namespace -c --container --context --kubeconfig --cluster --user -s --server --pod-running-timeout"
_RUNNER = "--with --with-requirements --python -p --extra --group --package --project --directory --env-file --index-url -C"

_LOADERS = (
    ("lib64", "ld-linux-x86-64.so.2"),
    ("lib/x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
    ("usr/lib64", "ld-linux-x86-64.so.2"),
    ("lib", "ld-linux.so.2"),
    ("lib", "ld-linux-aarch64.so.1"),
    ("lib", "ld-musl-x86_64.so.1"),
    ("lib", "ld-musl-aarch64.so.1"),
)

WRAPPERS: dict[str, tuple[Wrapper, ...]] = {
    "sudo": (_wrapper(_SUDO, sets=True, goes="-D --chdir"),),
    "doas": (_wrapper("-u -C", sets=True),),
    "pkexec": (_wrapper("--user"),),
    "run0": (_wrapper("-u -g --user --group --unit --slice", goes="-D --chdir"),),
    "gosu": (_wrapper("", 1),),
    "su-exec": (_wrapper("", 1),),
    "setpriv": (_wrapper("--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits --pdeathsig"),),
    "nohup": (_wrapper(),),
    "setsid": (_wrapper(),),
    "nice": (_wrapper("-n --adjustment"),),
    "ionice": (_wrapper("-c -n -p -P -u --class --classdata --pid"),),
    "chrt": (_wrapper("-T -P -D", 1),),
    "taskset": (_wrapper("", 1),),
    "numactl": (_wrapper("-N -m -C -i -p --cpunodebind --membind --physcpubind"),),
    "prlimit": (_wrapper("-p --pid", own=True),),
    **dict.fromkeys(("linux32", "linux64", "uname26", "i386", "i486", "i586", "i686", "x86_64"), (_wrapper(),)),
    "arch": (_wrapper("-arch -e -d"),),
    "timeout": (_wrapper("-k -s --kill-after --signal", 1),),
    "gtimeout": (_wrapper("-k -s --kill-after --signal", 1),),
    "stdbuf": (_wrapper("-i -o -e --input --output --error"),),
    "unbuffer": (_wrapper(),),
    "time": (_wrapper("-f -o --format --output", own=True),),
    "perf": (_wrapper("-e -o -g -F -p -t -u -C --event --output --pid --tid", 0, "stat|record|trace", own=True),),
    "strace": (_wrapper("-e -o -p -s -P -a -u -E -I -O -S -X -b", own=True),),
    "ltrace": (_wrapper("-e -o -p -s -l -u -n -a -A -D -F -x", own=True),),
    "valgrind": (_wrapper(),),
    "gdb": (_wrapper("-ex -x -p -c -iex", 0, "--args", own=True),),
    "busybox": (_wrapper(),),
    "toybox": (_wrapper(),),
    "unshare": (_wrapper("-S -G -R --root --setuid --setgid --propagation", own=True, goes="-w --wd"),),
    "nsenter": (_wrapper("-t -S -G --target --setuid --setgid", own=True, place="namespace"),),
    "chroot": (_wrapper("", 1, own=True, place="chroot:{}"),),
    "fakeroot": (_wrapper("-l -s -i -b"),),
    "proot": (_wrapper("-r -b -q --rootfs --bind", goes="-w --cwd"),),
    "firejail": (_wrapper(),),
    "systemd-run": (_wrapper(_SYSTEMD, own=True, goes="--working-directory"),),
    "systemd-inhibit": (_wrapper("--what --who --why --mode"),),
    "dbus-run-session": (_wrapper("--config-file"),),
    "xvfb-run": (_wrapper("-n -s -e -f -p -w --server-num --server-args"),),
    "caffeinate": (_wrapper("-t -w"),),
    "eatmydata": (_wrapper(),),
    "choom": (_wrapper("-n -p"),),
    "chronic": (_wrapper(),),
    "ifne": (_wrapper(),),
    "daemonize": (_wrapper("-e -o -p -l -u -E", goes="-c"),),
    "dumb-init": (_wrapper(),),
    "tini": (_wrapper("-p -e"),),
    "catchsegv": (_wrapper(),),
    "proxychains": (_wrapper("-f"),),
    "proxychains4": (_wrapper("-f"),),
    "torsocks": (_wrapper("-u -p -a -P"),),
    "tsocks": (_wrapper(),),
    "faketime": (_wrapper("", 1),),
    "ccache": (_wrapper(),),
    "torify": (_wrapper(),),
    "trickle": (_wrapper("-d -u -w -t -l -n"),),
    "cpulimit": (_wrapper("-l -e -p -P -c --limit --exe --pid --path --cpu"),),
    "cgexec": (_wrapper("-g"),),
    "systemd-cat": (_wrapper("-t -p --identifier --priority --stderr-priority --level-prefix --namespace"),),
    "dbus-launch": (_wrapper("--config-file"),),
    "run-one": (_wrapper(),),
    "fakechroot": (_wrapper("-c -e -l -b"),),
    "chpst": (_wrapper("-u -U -b -e -/ -n -l -L -m -d -o -p -f -c -t"),),
    "softlimit": (_wrapper("-a -c -d -f -l -m -o -p -r -s -t"),),
    "setuidgid": (_wrapper("", 1),),
    "s6-setuidgid": (_wrapper("", 1),),
    "envdir": (_wrapper("", 1),),
    "s6-envdir": (_wrapper("-n", 1),),
    "tsp": (_wrapper("-L -D -W -N -C -S -O"),),
    "flatpak-spawn": (_wrapper(),),
    **dict.fromkeys(
        ("apptainer", "singularity"),
        (_wrapper("-B --bind --env -H --home -W --workdir --pwd --cwd", 1, "exec", own=True),),
    ),
    "ch-run": (_wrapper("-b --bind -c --cd -m --mount", 1),),
    **dict.fromkeys(
        (f"/{folder}/{name}" for folder, name in _LOADERS),
        (_wrapper("--library-path --preload --argv0 --audit --inhibit-rpath --glibc-hwcaps-prepend --glibc-hwcaps-mask"),),
    ),
    **dict.fromkeys(
        (f"qemu-{cpu}{kind}" for cpu in ("x86_64", "i386", "aarch64", "arm", "riscv64") for kind in ("", "-static")),
        (_wrapper("-L -E -U -0 -cpu -B -R -s -g -d -D"),),
    ),
    **dict.fromkeys(("csh", "tcsh"), (_wrapper("", 99, textual="-c"),)),
    **dict.fromkeys(("nu", "xonsh", "elvish"), (_wrapper("--config --env-config --rc -I", 99, textual="-c --commands"),)),
    "mosh": (_wrapper("-p --ssh --server --client --port --predict --family", 1, place="ssh:{}", own=True),),
    "flock": (_wrapper("-w -E --timeout --conflict-exit-code", 1, textual="-c --command"),),
    "watch": (_wrapper("-n -d --interval", text=True),),
    "entr": (_wrapper("", textual="-s"),),
    "watchexec": (_wrapper("-e -w -f -i -r -s -d -W --exts --watch --filter --ignore --signal --debounce", text=True),),
    "cargo": (_wrapper("-w -i -d --watch --ignore --delay", 99, "watch", textual="-s --shell"),),
    "nodemon": (_wrapper("-e -w -i --ext --watch --ignore", textual="--exec -x"),),
    "hyperfine": (_wrapper("-w -m -M -r -n -s --warmup --runs --export-json", text=True, textual="-p --prepare -c --cleanup"),),
    "concurrently": (_wrapper("-n -c --names", text=True),),
    "dotenv": (_wrapper("-f -e --file", 0, "run"), _wrapper("-f -e", dashed=True)),
    "direnv": (_wrapper("", 1, "exec"),),
    "op": (_wrapper("--env-file", 0, "run"),),
    "doppler": (_wrapper("-p -c", 0, "run"),),
    "aws-vault": (_wrapper("-d --duration", 1, "exec"),),
    "ssh-agent": (_wrapper("-a -t -E"),),
    "docker": (
        _wrapper(_IN_CONTAINER, 1, "exec", place="container:{}", own=True),
        _wrapper(_IN_CONTAINER, 1, "container exec", place="container:{}", own=True),
        _wrapper(_IN_CONTAINER, 1, "compose exec", place="container:{}", own=True),
    ),
    "podman": (_wrapper(_IN_CONTAINER, 1, "exec", place="container:{}", own=True), _wrapper("", 0, "unshare")),
    "nerdctl": (_wrapper(_IN_CONTAINER, 1, "exec", place="container:{}", own=True),),
    "docker-compose": (_wrapper(_IN_CONTAINER, 1, "exec", place="container:{}", own=True),),
    "lxc": (_wrapper("--cwd --env --user --group", 1, "exec", place="container:{}", own=True),),
    "incus": (_wrapper("--cwd --env --user --group", 1, "exec", place="container:{}", own=True),),
    "lxc-attach": (_wrapper("-n --name", dashed=True, place="container:?", own=True),),
    "kubectl": (_wrapper(_KUBE, 0, "exec", dashed=True, place="container:pod", own=True),),
    "oc": (
        _wrapper(_KUBE, 0, "exec", dashed=True, place="container:pod", own=True),
        _wrapper(_KUBE, 1, "rsh", place="container:{}", own=True),
    ),
    "pssh": (_wrapper("-h -H -l -p -o -e -t -x -X -O", text=True, place="ssh:hosts", own=True),),
    "parallel-ssh": (_wrapper("-h -H -l -p -o -e -t -x -X -O", text=True, place="ssh:hosts", own=True),),
    "pdsh": (_wrapper("-w -x -g -l -f -t -u -R", text=True, place="ssh:hosts", own=True),),
    "clush": (_wrapper("-w -x -g -l -f -t -u", text=True, place="ssh:hosts", own=True),),
    "dsh": (_wrapper("-m -g -f -r", text=True, place="ssh:hosts", own=True),),
    "vagrant": (_wrapper("", 9, "ssh", textual="-c --command", place="ssh:vagrant", own=True),),
    "distrobox": (_wrapper("-n --name", dashed=True, place="container:?", own=True),),
    "toolbox": (_wrapper("-c --container", 0, "run", place="container:?", own=True),),
    "uv": (_wrapper(_RUNNER, 0, "run", goes="--directory"), _wrapper(_RUNNER, 0, "tool run")),
    "uvx": (_wrapper("--from --with --python -p"),),
    "pipx": (_wrapper("--spec --python --pip-args", 0, "run"),),
    "poetry": (_wrapper("-C -P", 0, "run"),),
    "pdm": (_wrapper("-p", 0, "run"),),
    "rye": (_wrapper("", 0, "run"),),
    "pipenv": (_wrapper("", 0, "run"),),
    "hatch": (_wrapper("-e --env", 0, "run"),),
    "conda": (_wrapper("-n -p --name --prefix", 0, "run", goes="--cwd"),),
    "mamba": (_wrapper("-n -p --name --prefix", 0, "run", goes="--cwd"),),
    "bundle": (_wrapper("--gemfile", 0, "exec"),),
    "npx": (_wrapper("-p --package", textual="-c --call"),),
    "bunx": (_wrapper(),),
    "pnpm": (_wrapper("--filter -F -C", 0, "exec|dlx"),),
    "npm": (_wrapper("-p --package -w --workspace", 0, "exec|x", textual="-c --call"),),
    "yarn": (_wrapper("", 0, "exec|dlx"),),
    "mise": (_wrapper("-C", 0, "exec|x", dashed=True),),
    "asdf": (_wrapper("", 0, "exec"),),
    "rbenv": (_wrapper("", 0, "exec"),),
    "pyenv": (_wrapper("", 0, "exec"),),
    "nix-shell": (_wrapper("-p -I -A", 99, textual="--run --command"),),
    "coverage": (),
    "script": (_wrapper("-O -o -I -B -T -m -E", 1, own=True, textual="-c --command"),),
    "sg": (_wrapper("", 1, text=True, textual="-c", single=True),),
    "xterm": (_wrapper("-T -n -geometry", 99, textual=""),),
    "gnome-terminal": (_wrapper("", dashed=True),),
    "machinectl": (_wrapper("--uid --setenv", 1, "shell", place="container:{}", own=True),),
}  # fmt: skip


def inner(row: Sequence[Wrapper], argv: Values) -> list[Inner] | None:
    """Return the commands inside ``argv``; None if it wraps none."""
    for wrapper in row:
        found = _wrapped(wrapper, argv)
        if found is not None:
            return found
    return None


def _wrapped(wrapper: Wrapper, argv: Values) -> list[Inner] | None:
    at = 1
    for words in wrapper.sub:
        at = _past_options(wrapper, argv, at)
        if at >= len(argv) or argv[at].text not in words:
            return None
        at += 1
    found: list[Inner] = []
    environment: dict[str, Value] = {}
    skipped: list[Value] = []
    cwd: Value | None = None
    while at < len(argv):
        value = argv[at]
        text = value.text
        if text == "--":
            at += 1
            take = max(0, wrapper.skip - len(skipped)) if wrapper.skip < 9 else 0
            skipped += argv[at : at + take]
            at += take
            break
        if wrapper.single and len(skipped) == wrapper.skip and text not in wrapper.textual:
            argv = argv[: at + 1]
            break
        if text[:1] == "-" and len(text) > 1:
            cwd = _folder(wrapper, argv, at) or cwd
            at = _option(wrapper, argv, at, found)
        elif wrapper.sets and (match := ASSIGNMENT.match(text)) is not None:
            environment[match[1]] = value._replace(text=text[match.end() :])
            at += 1
        elif wrapper.dashed or len(skipped) < wrapper.skip:
            skipped.append(value)
            at += 1
        else:
            break
    place = wrapper.place.replace("{}", skipped[0].text if skipped else "?")
    rest = list(argv[at:])
    if rest and wrapper.text:
        found.append(Inner(text=joined(rest, " ")))
    elif rest:
        found.append(Inner(argv=rest))
    for one in found:
        one.place, one.own, one.environment, one.cwd = place, wrapper.own, environment, cwd
    return found or None


def _folder(wrapper: Wrapper, argv: Values, at: int) -> Value | None:
    """Return the folder given by an option; None for any other option."""
    text = argv[at].text
    name, equals, given = text.partition("=")
    if equals and name in wrapper.goes:
        return argv[at]._replace(text=given, shown="")
    if text[:2] in wrapper.goes and text[1:2] != "-" and len(text) > 2:
        return argv[at]._replace(text=text[2:], shown="")
    return argv[at + 1] if text in wrapper.goes and at + 1 < len(argv) else None


def _option(wrapper: Wrapper, argv: Values, at: int, found: list[Inner]) -> int:
    """Return the index after an option and its value. Collects texts that a shell reads."""
    text = argv[at].text
    name, equals, given = text.partition("=")
    if wrapper.textual:
        for option in wrapper.textual:
            if text == option or (option[1] != "-" and re.fullmatch(rf"-[A-Za-z]*{option[1]}", text)):
                if at + 1 < len(argv):
                    found.append(Inner(text=argv[at + 1]))
                return at + 2
        if name not in wrapper.textual and _abbreviates(name, wrapper.textual):
            if not equals:
                found += [Inner(text=value) for value in argv[at + 1 : at + 2]]
                return at + 2
            found.append(Inner(text=argv[at]._replace(text=given, shown="")))
            return at + 1
        if equals and name in wrapper.textual:
            found.append(Inner(text=argv[at]._replace(text=given, shown="")))
            return at + 1
    return at + 2 if takes_next(text, wrapper.valued) else at + 1


def takes_next(text: str, valued: frozenset[str]) -> bool:
    """Return whether an option's value is the next word: ``-u``, or a cluster that ends in such a letter."""
    if text in valued:
        return True
    if text.startswith("--"):
        return _abbreviates(text, valued)
    for at, letter in enumerate(text[1:], start=1):
        if f"-{letter}" in valued:
            return at == len(text) - 1
    return False


def _abbreviates(name: str, options: frozenset[str]) -> bool:
    """Return whether a long option is one of these, shortened as GNU getopt allows."""
    return len(name) > 2 and name[:2] == "--" and any(one.startswith(name) for one in options)


def _past_options(wrapper: Wrapper, argv: Values, at: int) -> int:
    while at < len(argv) and argv[at].text[:1] == "-" and len(argv[at].text) > 1:
        if argv[at].text in ("--args",):
            return at
        at += 2 if takes_next(argv[at].text, wrapper.valued | {"-f", "-p", "--context", "-H", "-c", "-n", "--namespace"}) else 1
    return at


def words_of(text: str) -> list[str]:
    """Split a text as xargs does: blanks, quotes, backslashes."""
    matches = re.finditer(r"(?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s'\"\\])+", text)
    return [_QUOTES.sub(lambda one: one[1] or one[2] or one[3] or "", match[0]) for match in matches]


_QUOTES = Regex(r"'([^']*)'|\"([^\"]*)\"|\\(.)")


def fed_value(value: Value | None) -> Value:
    """Return an unknown argument from the output ``value`` of another command, with its taint."""
    return unknown(value.taint if value is not None else Taint.NONE)
