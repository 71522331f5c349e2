"""Calls that write nothing: the strict check for a session that plans, or whose user confirms every change.

The rules look for danger and allow everything else. This check allows only calls that are known to read: anything unknown or
missing from the tables counts as a write. The result is the reason why a call counts as a write, as text for users; "" if it does
not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from toolcrib.contract.effects import Effect, ReadsFile, RunsCommand, SendsMessage, ShellState, UsesProcess, WritesInput
from toolcrib.contract.entry import ToolEntry
from toolcrib.contract.regex import Regex
from tools.judge.budget import Budget
from tools.judge.detect import now_of
from tools.judge.meaning import interpret
from tools.judge.meaning.act import Act, RedirectTarget
from tools.judge.meaning.state import NoFiles, Snapshot
from tools.judge.meaning.value import HOLE, Value, names
from tools.judge.readers import is_plain, may_write
from tools.judge.rules import filed
from tools.judge.rules.environment import loads
from tools.judge.setting import Setting
from tools.judge.shell import ShellSyntaxError, ShellTooComplex, parse, tree

_NOWHERE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2"})
_NETWORK = ("/dev/tcp/", "/dev/udp/")
_SYSTEM = ("/bin/", "/usr/bin/", "/usr/local/bin/")
_WRAPPERS = frozenset({"timeout", "nice", "env", "command", "builtin", "stdbuf"})
_HANDS_ON = frozenset({"find", "xargs"})
_XARGS = Regex(r"(?<![\w./-])xargs(?:\s+-(?:0|r|n\s*\d+|L\s*\d+|P\s*\d+|I\s*(?:\{\}|%|\w+)))*(?=\s+[A-Za-z])")
_FREE = Regex(r"[a-z_][a-z0-9_]*")
_ASSIGNED = names("LC_ALL LANG TZ NO_COLOR COLUMNS TERM CLICOLOR FORCE_COLOR GIT_OPTIONAL_LOCKS GIT_TERMINAL_PROMPT")
_PAGERS = names("PAGER GIT_PAGER MANPAGER")
_NUMBERS = Regex(r"[\d\s+*/%()<>=!&|^~?:-]*")
_INDEX = Regex(r"\d+|@|\*|-\d+")
_COMPARES = names("-eq -ne -lt -le -gt -ge -v")
_LOADED = names("RIPGREP_CONFIG_PATH TAR_OPTIONS GREP_OPTIONS GIT_DIR GIT_WORK_TREE")
_TEMPORARY = ("/tmp/", "/var/tmp/", "/dev/shm/")  # noqa: S108 - looked for, not used


def may_act(entry: ToolEntry, effects: Sequence[Effect], *, setting: Setting, files: Snapshot | None = None) -> str:
    """Return why a call may change something; "" if it is judged to write nothing. Reads files only through ``files``."""
    if not effects:
        if entry.kind == "read" or (entry.kind == "other" and entry.changes in ("nothing", "declared")):
            return ""
        return f"{entry.name} {entry.lasting or 'has unknown effects'}"
    if any(isinstance(effect, SendsMessage) for effect in effects):
        return f"{entry.name} sends a message"
    if all(isinstance(effect, UsesProcess) and not effect.changes for effect in effects):
        return ""
    if entry.kind not in ("read", "execute"):
        return f"{entry.name} changes files" if entry.kind == "edit" else f"{entry.name} may change something"
    for effect in effects:
        if isinstance(effect, ReadsFile) or (isinstance(effect, UsesProcess) and not effect.changes):
            continue
        if isinstance(effect, UsesProcess | WritesInput):
            does = effect.changes if isinstance(effect, UsesProcess) else "writes to its input"
            return f"{does}: the background process {effect.process or 'of any name'}"
        if not isinstance(effect, RunsCommand):
            return f"{entry.name} changes files"
        if why := command_acts(effect, setting=setting, files=files):
            return why
    return ""


def command_acts(effect: RunsCommand, *, setting: Setting, files: Snapshot | None = None) -> str:
    """Return why a command may change something; see ``may_act``. Never raises."""
    command, files = effect.command, files or NoFiles()
    if effect.background or effect.open_input:
        return "it starts a background process"
    if len(command) > setting.max_chars:
        return "it is too long to judge"
    shell = effect.shell or ShellState()
    if why := _of_text(command, shell) or _of_shell(shell):
        return why
    now = now_of(effect.cwd, effect.shell, setting.home, files)
    meaning = interpret(command, now, files, Budget(chars=setting.max_chars), filed())
    if meaning.faults:
        return f"it can't be analysed: {meaning.faults[0].why}"
    for act in meaning.acts:
        if why := _of_act(act):
            return why
    if any("xargs" in act.wrappers for act in meaning.acts) and len(_XARGS.findall(command)) != command.count("xargs"):
        return "xargs: it has an option that is not known to be harmless; only -0, -r, -n, -L, -P and -I are"
    wanted = sum(value.text == "-exec" for act in meaning.acts if act.name == "find" for value in act.argv)
    if wanted > sum("find" in act.wrappers for act in meaning.acts):
        return "find: the command that -exec runs can't be analysed"
    return ""


# -- acts ----------------------------------------------------------------------------------------------------------------


def _of_act(act: Act) -> str:
    words = _shown(" ".join(one.text for one in act.argv[:2]))[:60] or "an assignment"
    for target in act.redirects:
        if why := _of_redirect(target):
            return why
    for name, given in act.environment.items():
        if not _may_assign(name, given):
            return f"{words}: it sets {name}"
    if act.background:
        return f"{words}: it continues in the background"
    if act.place:
        return f"{words}: it runs elsewhere ({_shown(act.place)})"
    why = _of_program(act)
    return f"{words}: {why}" if why else ""


def _of_program(act: Act) -> str:
    if not act.argv:
        return "its effects are unknown" if act.name or act.code else ""
    name, written = act.name.rpartition("/")[2], act.argv[0].text
    if "/" in written and (not written.startswith(_SYSTEM) or written.rpartition("/")[0] + "/" not in _SYSTEM):
        return "it is a file with unknown effects"
    if HOLE in act.name or not name or ("/" in act.name and act.name != written):
        return "it is a file with unknown effects"
    handed = [wrapper for wrapper in act.wrappers if wrapper not in _WRAPPERS]
    if not _HANDS_ON.issuperset(handed):
        return f"it runs through {', '.join(handed)}"
    if act.language != "shell":
        return f"code in {act.language} runs it"
    if (act.fed or handed) and not is_plain(name):
        return "the arguments that it receives may be options that write"
    return may_write(name, [HOLE if one.pattern or not one.known else one.text for one in act.args])


def reads_only(act: Act) -> bool:
    """Return whether a program does no more than read and print. Redirects of its output do not count."""
    return (
        not act.place
        and not any(not _may_assign(name, given) for name, given in act.environment.items())
        and not _of_program(act)
    )


def _of_redirect(target: RedirectTarget) -> str:
    path = target.path.text
    if target.op == "<":
        return "it opens a connection" if path.startswith((*_NETWORK, HOLE)) else ""
    if target.op != "<>" and target.path.known and path in _NOWHERE:
        return ""
    return f"it writes to {_shown(path)}"


def _may_assign(name: str, given: Value) -> bool:
    if _FREE.fullmatch(name) is not None or name in _ASSIGNED or name.startswith("LC_"):
        return True
    return name in _PAGERS and given.text in ("cat", "")


def _shown(text: str) -> str:
    return text.replace(HOLE, "…")


# -- the session's shell ---------------------------------------------------------------------------------------------------


def _of_shell(shell: ShellState) -> str:
    """Return how state that earlier commands left in the session's shell could make a program that only reads do something else;
    "" if it could not.
    """
    if shell.traps:
        return "the session's shell has a trap, which may run during any command"
    if "allexport" in shell.variables.get("SHELLOPTS", "").split(":"):
        return "the session's shell exports all assigned variables"
    for name, text in shell.variables.items():
        exported = "x" in shell.attributes.get(name, "") or not shell.attributes
        if exported and name != "PATH" and (name in _LOADED or loads(name, Value(text))):
            return f"the session's shell exports {name}, which may make programs run other programs"
    for name, path in shell.arrays.get("BASH_CMDS", {}).items():
        if path.rpartition("/")[2] != name or path[:1] != "/" or path.startswith(_TEMPORARY):
            return f"the session's shell runs {path} for {name}"
    return ""


# -- the text --------------------------------------------------------------------------------------------------------------


def _of_text(command: str, shell: ShellState) -> str:
    """Return why the text alone shows that a command may write; "" if it does not.

    Reasons are that it can't be parsed, sets variables, defines functions, evaluates text as code, or hides which program runs.
    """
    try:
        script = parse(command)
    except (ShellSyntaxError, ShellTooComplex) as error:
        return f"it can't be parsed: {error}"
    taken = frozenset(shell.functions) | frozenset(shell.aliases)
    return next((why for node in _nodes(script) if (why := _of_node(node, shell.attributes, taken))), "")


def _nodes(root: object) -> Iterator[object]:
    """Yield all nodes of a tree."""
    left: list[object] = [root]
    while left:
        node = left.pop()
        if isinstance(node, list | tuple):
            left.extend(node)
        elif type(node).__module__ == tree.__name__:
            yield node
            left.extend(getattr(node, name, None) for name in getattr(type(node), "__slots__", ()))


def _of_node(node: object, attributes: Mapping[str, str], taken: frozenset[str]) -> str:
    match node:
        case tree.Function(name=name):
            return f"it defines the function {name}"
        case tree.Coproc():
            return "it starts a background job"
        case tree.ArithmeticCommand() | tree.ArithmeticFor():
            return "it calculates in the shell, which may set any variable"
        case tree.Arithmetic(text=word) if not _is_number(word):
            return "it calculates with variables, which may set any variable"
        case tree.Conditional(words=words) if any(_literal(word) in _COMPARES for word in words):
            return "[[ ]] calculates the operands of -v, -eq and similar tests, which may run commands"
        case tree.Redirect(fd=str() as fd):
            return f"it sets {fd}"
        case tree.For(name=name, select=select) if select or not _is_free(name, attributes):
            return f"it sets {name}"
        case tree.Assignment(name=name, index=index) if index is not None or not _is_settable(name, attributes):
            return f"it sets {name}"
        case tree.Parameter():
            return _of_parameter(node, attributes)
        case tree.Simple(words=words) if words:
            return _of_words(words, attributes, taken)
    return ""


def _of_parameter(node: tree.Parameter, attributes: Mapping[str, str]) -> str:
    if node.op in (":=", "=") and not _is_free(node.name, attributes):
        return f"it sets {node.name}"
    if node.op == "indirect" or node.op.startswith("@"):
        return f"it uses the value of {node.name} as a name or a prompt, which may run something"
    if node.index is not None and _INDEX.fullmatch(_literal(node.index) or "") is None:
        return f"it calculates the index of {node.name}"
    if node.op == ":" and not _is_number(node.argument):
        return f"it calculates which part of {node.name} to take"
    return ""


def _of_words(words: Sequence[object], attributes: Mapping[str, str], taken: frozenset[str]) -> str:
    texts = [_literal(word) for word in words]
    if texts[0] is None:
        return "its program is not known before it runs"
    if None in texts and (texts[0] in _WRAPPERS or "xargs" in texts or "-exec" in texts):
        return "the command that it starts is only known when it runs"
    if any(text == "xargs" and not _is_plain(word) for word, text in zip(words, texts, strict=True)):
        return "it spells xargs in an unusual way"
    if not taken.isdisjoint(text for text in texts if text is not None):
        return "one of its words is a function or alias of the session's shell"
    if texts[0] == "read":
        for name in texts[1:]:
            if name is None or attributes.get(name, ""):
                return f"it sets {name or 'a variable that is not known yet'}"
    return ""


def _is_free(name: str, attributes: Mapping[str, str]) -> bool:
    """Return whether a variable can be set without any other effect: its name is in lower case, which programs do not use, and it
    has no attributes such as integer, name reference, exported or readonly.
    """
    return _FREE.fullmatch(name) is not None and not attributes.get(name, "").strip("aAlu")


def _is_settable(name: str, attributes: Mapping[str, str]) -> bool:
    return _is_free(name, attributes) or name in _ASSIGNED or name in _PAGERS or name.startswith("LC_")


def _is_number(word: object) -> bool:
    text = _literal(word)
    return text is not None and _NUMBERS.fullmatch(text) is not None


def _is_plain(word: object) -> bool:
    return isinstance(word, tree.Word) and len(word.parts) == 1 and isinstance(word.parts[0], tree.Plain)


def _literal(word: object) -> str | None:
    """Return the text of a word that consists of text only, without expansions; None for any other object."""
    if not isinstance(word, tree.Word):
        return None
    text = ""
    for part in word.parts:
        for one in part.parts if isinstance(part, tree.Double) else (part,):
            if not isinstance(one, tree.Plain | tree.Quoted):
                return None
            text += one.text
    return text
