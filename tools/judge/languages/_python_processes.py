"""Python's ways to start, feed and end processes."""

from __future__ import annotations

import shlex

from tools.judge.languages import _python_pure as pure
from tools.judge.languages._python_builtins import write_to
from tools.judge.languages._python_evaluator import Effect, Evaluator
from tools.judge.languages._python_values import Data, Either, ManyThings, Name, Obj, Thing, Unknown, dump, taint_of, text
from tools.judge.languages._tell import join
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value

_DOWNLOADERS = frozenset({"curl", "wget", "http", "https", "fetch", "nc", "ncat", "scp", "sftp"})
_DECODERS = frozenset({"base64", "base32", "xxd", "openssl", "gpg", "uudecode", "gunzip", "zcat"})


def argv_of(thing: Thing) -> list[Value]:
    """The words of a program that is started without a shell."""
    items = pure.items(thing) if type(thing) in (list, tuple) else None
    if items is None:
        return [text(thing)]
    return [text(one) for one in items]


def _shell(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    command = text(args[0] if args else named.get("command", named.get("cmd", Unknown())))
    m.tell.shell(command)
    return Obj("process", None, command=command, taint=output_taint(command.text.split(None, 1)[:1], command))


def output_taint(words: list[str], command: Value) -> Taint:
    """Return the taint of a program's output."""
    name = words[0].rpartition("/")[2] if words else ""
    taint = Taint.UNKNOWN | (command.taint & (Taint.REMOTE | Taint.SECRET))
    if name in _DOWNLOADERS:
        return taint | Taint.REMOTE
    return taint | Taint.DECODED if name in _DECODERS else taint


def _is_shell(named: dict[str, Thing]) -> bool:
    shell = named.get("shell", False)
    return pure.truth(shell) is True or isinstance(shell, Unknown | Either)


def _environment(named: dict[str, Thing]) -> dict[str, Value]:
    given = named.get("env")
    if not isinstance(given, dict):
        return {}
    return {key: text(value) for key, value in given.items() if isinstance(key, str)}


def _prints_into(m: Evaluator, named: dict[str, Thing], taint: Taint) -> None:
    """``run(..., stdout=file)``"""
    for thing in (named.get("stdout"), named.get("stderr")):
        if isinstance(thing, Obj) and thing.kind == "file":
            write_to(m, thing, Value(HOLE, taint | Taint.UNKNOWN))


def _bound_to_socket(m: Evaluator, named: dict[str, Thing]) -> None:
    for key in ("stdin", "stdout", "stderr"):
        thing = named.get(key)
        if isinstance(thing, Obj) and thing.kind == "socket":
            m.tell.reverse_shell(thing.fields.get("host", ANYTHING), thing.fields.get("port", ANYTHING))
            return


def subprocess(kind: str) -> Effect:
    """``subprocess.run``, ``Popen`` ...; ``kind`` is ``run``, ``popen`` or ``shell`` (getoutput)."""

    def effect(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
        command = args[0] if args else named.get("args", named.get("cmd", Unknown()))
        _bound_to_socket(m, named)
        as_shell = kind == "shell" or _is_shell(named)
        cwd = text(named["cwd"]) if named.get("cwd") is not None else None
        env = _environment(named)
        words = argv_of(command)

        def start(stdin: Value | None) -> None:
            process.fields["told"] = True
            if as_shell:
                m.tell.shell(words[0], stdin, cwd, env)
            elif isinstance(command, Value | Unknown | Data):
                _string_without_shell(m, text(command), stdin, cwd, env)
            else:
                given = text(named["executable"]) if named.get("executable") is not None else None
                m.tell.run([given, *words[1:]] if given is not None else words, stdin, cwd, env)

        process = Obj(
            "popen", None, start=start, taint=output_taint(words[0].text.split(None, 1)[:1] if words else [], join(words))
        )
        _prints_into(m, named, taint_of(process))
        stdin = named.get("stdin")
        if stdin == -1 or (isinstance(stdin, Name) and stdin.path.endswith(".PIPE")):
            m.pending.append(process)
        elif named.get("input") is not None:
            start(dump(named["input"]))
        elif isinstance(stdin, Obj | Unknown) and not (isinstance(stdin, Obj) and stdin.kind == "socket"):
            start(dump(stdin) if isinstance(stdin, Obj) else Value(HOLE, stdin.taint))
        else:
            start(None)
        return process

    return effect


def _string_without_shell(m: Evaluator, command: Value, stdin: Value | None, cwd: Value | None, env: dict[str, Value]) -> None:
    """Run a string that names the program itself. With blanks in it, it would not be found, but was surely meant to be split."""
    if command.known and " " in command.text:
        m.tell.shell(command, stdin, cwd, env)
    else:
        m.tell.run([command], stdin, cwd, env)


def _exec_list(skip_first: bool, with_env: bool = False) -> Effect:
    """``os.execl(path, arg0, arg1...)``; ``skip_first`` for spawn's mode."""

    def effect(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
        given = args[1:] if skip_first else args
        if with_env:
            given = given[:-1]
        if given:
            m.tell.run([text(given[0]), *[text(one) for one in given[2:]]])

    return effect


def _exec_vector(skip_first: bool) -> Effect:
    """``os.execv(path, [arg0, ...])``, posix_spawn too."""

    def effect(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
        given = args[1:] if skip_first else args
        words = argv_of(given[1]) if len(given) > 1 else [ANYTHING]
        m.tell.run([text(given[0]) if given else ANYTHING, *words[1:]])

    return effect


def _spawn_pty(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    words = argv_of(args[0]) if args else [ANYTHING]
    m.tell.run(words)


def _async_exec(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return subprocess("run")(m, [list(args)], named)


def _kill(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.kill(signal_of(args), text(args[0]) if args else ANYTHING)


def _killpg(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.kill(signal_of(args), join([Value("-"), text(args[0]) if args else ANYTHING]))


def signal_of(args: list[Thing]) -> int | str | None:
    signal = args[1] if len(args) > 1 else None
    if isinstance(signal, int):
        return signal
    return signal.text if isinstance(signal, Value) and signal.known else None


def _fork(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.forks += 1
    return Unknown(Taint.NONE)


def _dup2(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    thing = args[0] if args else None
    if isinstance(thing, Obj) and thing.kind == "socket" and args[1:2] and args[1] in (0, 1, 2):
        m.tell.reverse_shell(thing.fields.get("host", ANYTHING), thing.fields.get("port", ANYTHING))


def _split(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    given = text(args[0]) if args else ANYTHING
    if not given.known:
        parts = given.text.split()
        return [Value(part, given.taint) for part in parts]
    try:
        return [Value(part, given.taint) for part in shlex.split(given.text)]
    except ValueError:
        return Unknown(given.taint | Taint.UNKNOWN)


def _run_path(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.run([Value("python3"), text(args[0]) if args else ANYTHING])


def _run_module(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.run([Value("python3"), Value("-m"), text(args[0]) if args else ANYTHING])


def _pip(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.run([Value("pip"), *argv_of(args[0] if args else [])])


def _thread(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    target = named.get("target", args[1] if len(args) > 1 else None)
    given = named.get("args", ())
    if target is not None:
        items = pure.items(given)
        m.call(target, items if items is not None else [Unknown()], {})
    return Unknown(Taint.NONE)


def _mapped(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    """``map(function, things)``."""
    if len(args) < 2:
        return Unknown()
    turns = m.turns_of(args[1]) if len(args) == 2 else None
    if turns is None:
        taint = taint_of(args[1])
        return ManyThings(
            m.spread(lambda one: m.call(args[0], [one], {}), [pure.element(args[1])]) or Unknown(taint | Taint.UNKNOWN)
        )
    return [m.spread(lambda one: m.call(args[0], [one], {}), [one]) for one in turns]


PROCESSES: dict[str, Effect] = {
    "os.system": _shell,
    "os.popen": _shell,
    "os.popen2": _shell,
    "os.popen3": _shell,
    "os.startfile": _shell,
    "pexpect.run": _shell,
    "pexpect.spawn": _shell,
    "pexpect.runu": _shell,
    "subprocess.run": subprocess("run"),
    "subprocess.call": subprocess("run"),
    "subprocess.check_call": subprocess("run"),
    "subprocess.check_output": subprocess("run"),
    "subprocess.Popen": subprocess("popen"),
    "subprocess.getoutput": subprocess("shell"),
    "subprocess.getstatusoutput": subprocess("shell"),
    "asyncio.create_subprocess_shell": subprocess("shell"),
    "asyncio.create_subprocess_exec": _async_exec,
    "asyncio.subprocess.create_subprocess_exec": _async_exec,
    "asyncio.subprocess.create_subprocess_shell": subprocess("shell"),
    "anyio.run_process": subprocess("run"),
    "pty.spawn": _spawn_pty,
    "os.execl": _exec_list(False),
    "os.execlp": _exec_list(False),
    "os.execle": _exec_list(False, with_env=True),
    "os.execlpe": _exec_list(False, with_env=True),
    "os.spawnl": _exec_list(True),
    "os.spawnlp": _exec_list(True),
    "os.spawnle": _exec_list(True, with_env=True),
    "os.spawnlpe": _exec_list(True, with_env=True),
    "os.execv": _exec_vector(False),
    "os.execvp": _exec_vector(False),
    "os.execve": _exec_vector(False),
    "os.execvpe": _exec_vector(False),
    "os.posix_spawn": _exec_vector(False),
    "os.posix_spawnp": _exec_vector(False),
    "os.spawnv": _exec_vector(True),
    "os.spawnvp": _exec_vector(True),
    "os.spawnve": _exec_vector(True),
    "os.spawnvpe": _exec_vector(True),
    "os.kill": _kill,
    "os.killpg": _killpg,
    "os.fork": _fork,
    "os.forkpty": _fork,
    "pty.fork": _fork,
    "os.dup2": _dup2,
    "shlex.split": _split,
    "runpy.run_path": _run_path,
    "execfile": _run_path,
    "runpy.run_module": _run_module,
    "pip.main": _pip,
    "pip._internal.main": _pip,
    "pip._internal.cli.main.main": _pip,
    "threading.Thread": _thread,
    "multiprocessing.Process": _thread,
    "threading.Timer": _thread,
    "map": _mapped,
    "filter": _mapped,
}
