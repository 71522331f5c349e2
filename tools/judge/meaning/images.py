"""Dockerfiles and compose files of the session: effects outside the container that they build or start.

Effects inside a build end with it, or stay in its image. But a build can send data away, so the files that it can read are judged
by their names on the host. A service of a compose file is judged as the equivalent ``docker run``.
"""

from __future__ import annotations

import json
import posixpath
import shlex
from collections.abc import Iterator, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning import changes, owned
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import HOLE, Taint, Value, names
from tools.judge.meaning.walk import Walker
from tools.judge.meaning.wrappers import Inner
from tools.judge.options import Reading, read

Values = Sequence[Value]

_VALUED = names(
    "-f --file -t --tag -o --output --secret --ssh --build-arg --build-context --target --platform --network --cache-from"
    " --cache-to --label --progress --add-host --allow --attest --builder --iidfile --metadata-file --shm-size --ulimit -m"
    " --memory -v --volume --cap-add --cap-drop --device --security-opt --isolation --pid --ipc --uts --userns --env --runtime -p"
    " --project-name --profile --env-file --project-directory"
)
_BUILDS = names("build bud b")
_STARTS = names("up run start create restart")
_COMPOSE_FILES = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
_MOUNT = Regex(r"--mount=(\S+)")
_RUN_OPTION = Regex(r"\s*--(?:mount|network|security)=\S+\s*")
_HEREDOC = Regex(r"<<-?\s*(['\"]?)(\w+)\1")
_PAIR = Regex(r"(\s*)(-\s+)?(?:([\w-]+)\s*:(?:\s+|$))?(.*)$")
_LISTED = {"volumes": "-v", "cap_add": "--cap-add", "devices": "--device", "security_opt": "--security-opt"}
_SINGLE = {"pid": "--pid", "ipc": "--ipc", "userns_mode": "--userns", "network_mode": "--network"}


def _inside(it: Walker, state: State, argv: Values) -> list[Inner]:
    reading = read([value.text for value in argv], "", _VALUED)
    words = [argv[at].text for at in reading.operands]
    if "compose" in words[:1] or argv[0].text.endswith("-compose"):
        return _services(it, state, argv, reading, words) if _STARTS.intersection(words) else []
    verb = next((word for word in words[:2] if word in _BUILDS), "")
    return _built(it, state, argv, reading, words[words.index(verb) + 1 :]) if verb else []


# -- builds -----------------------------------------------------------------------------------------------------------


def _built(it: Walker, state: State, argv: Values, reading: Reading, operands: Sequence[str]) -> list[Inner]:
    context = operands[-1] if operands else "."
    given = [(one.name, one.value or "") for one in reading.options]
    named = [value for name, value in given if name in ("-f", "--file")]
    if context == "-" or "-" in named:
        text = state.stdin
    else:
        known = owned.first(it, state, *(named or [f"{context}/Dockerfile", f"{context}/Containerfile"]))
        text = known[1] if known is not None else None
    if text is None or not text.known:
        return []
    secrets = [_secret(value) for name, value in given if name == "--secret"]
    return [*_runs(text, context if context != "-" else "", [one for one in secrets if one is not None])]


def _secret(value: str) -> tuple[str, str] | None:
    """Return the name and the file of ``--secret id=k,src=FILE``; None if it has no file."""
    parts = dict(part.partition("=")[::2] for part in value.split(","))
    source = parts.get("src") or parts.get("source")
    return (parts["id"], source) if source and "id" in parts else None


def _runs(text: Value, context: str, secrets: Sequence[tuple[str, str]]) -> Iterator[Inner]:
    """Yield the commands of RUN that can read files of the host, with these files."""
    folder = "/"
    copied: list[tuple[str, Value]] = []
    for name, rest in _instructions(text.text):
        if name == "FROM":
            folder, copied = "/", []
        elif name == "WORKDIR":
            folder = posixpath.normpath(posixpath.join(folder, rest.strip("\"'")))
        elif name in ("COPY", "ADD") and "--from=" not in rest and context:
            *sources, to = [word for word in _words(rest) if word[:2] != "--"] or [""]
            place = posixpath.normpath(posixpath.join(folder, to))
            for source in sources:
                file = posixpath.normpath(f"{context}/{source}")
                alone = len(sources) == 1 and to[-1:] != "/" and to not in (".", "./")
                copied.append((place if alone or source in (".", "./") else f"{place}/{posixpath.basename(file)}", Value(file)))
        elif name == "RUN":
            used = [dict(part.partition("=")[::2] for part in match[1].split(",")) for match in _MOUNT.finditer(rest)]
            mounts = list(copied)
            for one in used:
                ident = one.get("id", "")
                to = one.get("target") or one.get("dst") or f"/run/secrets/{ident}"
                mounts += [(to, Value(source)) for known, source in secrets if known == ident]
                if one.get("type") == "bind" and "from" not in one and context:
                    source = posixpath.normpath(f"{context}/{one.get('source') or one.get('src') or '.'}")
                    mounts.append((posixpath.normpath(posixpath.join(folder, to)), Value(source)))
            if mounts:
                shell = _RUN_OPTION.sub("", rest)
                words = _words(shell) if shell.lstrip()[:1] == "[" else None
                line = Value(shlex.join(words) if words is not None else shell, text.taint)
                yield Inner(text=line, own=True, mounts=mounts, cwd=Value(folder), copied=True)


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield a Dockerfile's instructions, complete with continued lines and here-documents."""
    lines = iter(text.replace("\r\n", "\n").splitlines())
    for line in lines:
        if not line.strip() or line.lstrip()[:1] == "#":
            continue
        while line.endswith(("\\", "`")):
            more = next(lines, "")
            line = line[:-1] + ("" if more.lstrip()[:1] == "#" else more) + ("\\" if more.lstrip()[:1] == "#" else "")
        name, _, rest = line.strip().partition(" ")
        mark = _HEREDOC.search(rest) if name.upper() == "RUN" else None
        if mark is not None:
            body = "\n".join(iter(lambda end=mark[2]: next(lines, end), mark[2]))
            alone = not _RUN_OPTION.sub("", rest).replace(mark[0], "").strip()
            rest = f"{' '.join(match[0] for match in _MOUNT.finditer(rest))} {body}" if alone else f"{rest}\n{body}\n{mark[2]}"
        yield name.upper(), rest


def _words(text: str) -> list[str]:
    try:
        if text.lstrip()[:1] == "[":
            return [str(one) for one in json.loads(text)]
        return shlex.split(text)
    except ValueError:
        return text.split()


# -- compose files ----------------------------------------------------------------------------------------------------


def _services(it: Walker, state: State, argv: Values, reading: Reading, words: Sequence[str]) -> list[Inner]:
    """Return the commands that start the services of a compose file, each as a ``docker run``."""
    files = [one.value or "" for one in reading.options if one.name in ("-f", "--file")] or list(_COMPOSE_FILES)
    found: list[Inner] = []
    for file in files:
        text = owned.content(it, state, file)
        if text is not None and text.known:
            for options, command in _of_compose(text.text):
                if not options:
                    continue
                line = [Value(word, text.taint) for word in ("docker", "run", *options, "image", *command)]
                found.append(Inner(argv=line, own=True))
    return found


def _of_compose(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield each service's options and command."""
    service: list[str] = []
    depth = -1
    for line in [*text.splitlines(), "end:"]:
        plain = line.partition(" #")[0].rstrip()
        indent = len(plain) - len(plain.lstrip())
        if not plain or plain.lstrip()[:1] == "#":
            continue
        depth = indent if depth == 0 and indent else depth
        if indent > max(depth, 0):
            service.append(plain)
            continue
        if depth > 0 and service:
            yield _started(service)
        service = []
        if not indent:
            depth = 0 if plain.startswith("services:") else -1


def _started(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the options and the command in a service's lines."""
    options: list[str] = []
    command: list[str] = []
    key = ""
    mount: dict[str, str] = {}
    for line in lines:
        match = _PAIR.match(line)
        dash, name, rest = (match[2], match[3] or "", match[4].strip("\"' ")) if match is not None else (None, "", "")
        if dash and name not in _LONG_MOUNT:
            options += [_LISTED[key], f"{name}:{rest}" if name else rest] if key in _LISTED else []
            command += [rest] if key in ("command", "entrypoint") else []
            continue
        if name in _LONG_MOUNT and key == "volumes":
            mount = {**({} if dash else mount), name: rest}
            whole = name in ("source", "target") and {"source", "target"} <= mount.keys()
            options += ["-v", f"{mount['source']}:{mount['target']}"] if whole else []
            continue
        key = name or key
        options += _single(name, rest)
        command += _words(rest) if name in ("command", "entrypoint") else []
    return options, command


_LONG_MOUNT = frozenset({"type", "source", "target", "read_only"})


def _single(name: str, rest: str) -> list[str]:
    """Return the option for one line of a service."""
    if name == "privileged" and rest == "true":
        return ["--privileged"]
    if name in _SINGLE:
        return [f"{_SINGLE[name]}={rest}"]
    if name in _LISTED and rest[:1] == "[":
        return [word for one in rest.strip("[]").split(",") for word in (_LISTED[name], one.strip(" \"'"))]
    return []


# -- files that a build writes to the host -----------------------------------------------------------------------------


def _output(it: Walker, state: State, argv: Values) -> None:
    """Record that ``docker build -o FOLDER`` writes the image's files, which are unknown, into a folder."""
    reading = read([value.text for value in argv], "", _VALUED)
    if not _BUILDS.intersection(argv[at].text for at in reading.operands[:2]):
        return
    for one in reading.options:
        if one.name in ("-o", "--output") and one.value and one.value != "-":
            parts = dict(part.partition("=")[::2] for part in one.value.split(","))
            to = one.value if "=" not in one.value else parts.get("dest", "") if parts.get("type") == "local" else ""
            if to:
                changes.extracted(
                    it, state, [Value(to, Taint.NONE if HOLE not in to else Taint.UNKNOWN)], f"{argv[0].text} build", Taint.NONE
                )


_CP_VALUED = names("-H --host -c --context --config -l --log-level")


def _copied_out(it: Walker, state: State, argv: Values) -> None:
    """Record that ``docker cp CONTAINER:PATH FOLDER`` writes unknown files into a folder."""
    given = [argv[at] for at in read([value.text for value in argv], "", _CP_VALUED).operands]
    words = [value.text for value in given]
    at = words.index("cp") + 1 if "cp" in words[:2] else len(words)
    if len(words) != at + 2 or ":" not in words[at].partition("/")[0] or ":" in words[at + 1].partition("/")[0]:
        return
    last = words[at].rstrip("/").rpartition("/")[2].rpartition(":")[2]
    to, maker = given[at + 1], f"{argv[0].text} cp"
    if last in ("", ".") or HOLE in last:
        changes.extracted(it, state, [to], maker, Taint.NONE)
    elif to.text != "-":
        inside = to._replace(text=f"{to.text.rstrip('/')}/{last}")
        changes.extracted(it, state, [inside], maker, Taint.NONE)
        for path in (inside, to) if to.text.rstrip("/").rpartition("/")[2].strip(".") else (inside,):
            changes.mark(it, state, path, maker)


def _changes(it: Walker, state: State, argv: Values) -> None:
    _output(it, state, argv)
    _copied_out(it, state, argv)


_PROGRAMS = ("docker", "podman", "nerdctl", "buildah", "docker-compose", "podman-compose")
RECIPES = dict.fromkeys(_PROGRAMS, _inside)
CHANGES = dict.fromkeys(_PROGRAMS[:4], _changes)
