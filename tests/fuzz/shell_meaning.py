"""Run scripts of made-up command names with bash in a sandbox, and check that the interpreter listed all that bash executed.

    python tests/fuzz/shell_meaning.py --minutes 60 --seed 1 [--keep FOLDER]

Every name in a script is made up or a builtin. PATH is empty, so that only bash itself can run. bash's
``command_not_found_handle`` records each argv. A HOLE in the interpreter's list stands for any text.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tools.judge.meaning import HOLE, Act, NoFiles, ShellNow, interpret

NAMES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")
VARIABLES = ("u", "v", "w", "x", "y")
ARRAYS = ("p", "q")
FUNCTIONS = ("fone", "ftwo", "fthree")
ALIASES = ("aone", "atwo")
_PIECES = ("a", "bb", "c.d", "e-f", "g:h", "1", "23", "i,j", "alpha", "beta x", "k  l", " m", "n ", "")
_LISTS = {"name": NAMES, "var": VARIABLES, "arr": ARRAYS, "func": FUNCTIONS, "alias": ALIASES, "constant": _PIECES}
_MAX_RECORDS = 2_000
_ANY_WORDS = r"(?:.*\x00)?"
_MAX_HOLES = 4

# Some made-up commands succeed, some print: their behaviour must not be guessed. FUNCNEST ends functions that call themselves in
# processes of their own.
PRELUDE = """FUNCNEST=40
command_not_found_handle() {
  builtin printf '%s\\0' "$#" "$@" >&9
  case $1 in
    alpha|gamma) return 0 ;;
    delta) builtin echo "said by delta"; return 0 ;;
    *) return 127 ;;
  esac
}
"""
_DRIVER = """cd /empty
ulimit -t 5 -f 2000
for script in /scripts/*.sh; do
  out=/out/${script##*/}
  BASH_ENV=/scripts/prelude PATH=/nowhere /bin/bash --noprofile "$script" 9>"$out" >/dev/null 2>"$out.err" </dev/null
  :
done
"""


_TEMPLATES: dict[str, Sequence[str]] = {
    "piece": (
        "@quoted@", "@quoted@", "@quoted@", "@exp@", "@exp@", '"@exp@"', '"@exp@"', '"@constant@@exp@@constant@"', "@brace@",
        "@sub@", '"@sub@"',
        "$((@num@))", "@list@",
    ),
    "brace": ("$u{a,b}", "${u}{a,b}",
    "$u{1..2}$v", "{a,b}", "{1..3}", "{c,d{e,f}}", "x{,y}z", "{3..1}", "{a..e..2}", "{a}", "{,", '{a,"b c"}', "{@quoted@,z}",
    "{01..3}"),
    "list": ("$@", '"$@"', "$*", '"$*"', "$1", '"${@:2}"', "$#", "$?", "${#u}", "~", "'$u'", "\\$u", '"${*:1:1}"', "${@/a/b}"),
    "pattern": ("a", "?", "*", "*b", "b*", "[a-c]", "*.", " *", "[!a]*", "al*a", "'*'"),
    "other": ("z", "$u", "", "new", "'q r'", '"$v"'),
    "exp": (
        "$@var@", "${@var@}", "$@var@", "$@var@", "${@var@:-@other@}", "${@var@-@other@}", "${@var@:+@other@}",
        "${@var@+@other@}",
        "${@var@:=d}", "${@var@:=e f}", "${@var@:=$w}", "${#@var@}", "${@var@#@pattern@}", "${@var@##@pattern@}",
        "${@var@%@pattern@}",
        "${@var@%%@pattern@}", "${@var@/@pattern@/@other@}", "${@var@//@pattern@/@other@}", "${@var@/#@pattern@/@other@}",
        "${@var@/%@pattern@/@other@}", "${@var@^}", "${@var@^^}", "${@var@,}", "${@var@,,}", "${@var@:1}", "${@var@:0:2}",
        "${@var@: -2}", "${@var@:1:-1}", "${@var@@Q}", "${!@var@}", "${@arr@[@]}", "${@arr@[*]}", "${@arr@[0]}", "${@arr@[1]}",
        "${@arr@[-1]}", "${#@arr@[@]}", "${!@arr@[@]}", "${@arr@[@]:1}", "${@arr@[@]/a/b}", "${@arr@[@]#?}",
        "${@arr@[$((@num@))]}",
    ),
    "num": (
        "1", "2+3", "7/2", "-7%3", "@var@+1", "@var@=3", "@var@++", "++@var@", "1<2?4:5", "2**5", "(1+2)*3", "1,2",
        "@var@+=2", "0x1f",
        "010", "!0", "~1", "3&1|4", "1&&0", "5>=5", "p[@var@=1]", "1<<3", "${@var@:-2}*2",
    ),
    "sub": ("$(@printing@)", "$(@printing@)", "$(@printing@)", "`@simple@`", "`echo a b`", "$(< /dev/null)"),
    "printing": (
        "echo @word@", "printf '%s ' @word@ @word@", "echo @word@ @word@", "@simple@", "echo -n @word@", "printf %s @word@",
        "echo @word@; echo @word@", "if @simple@; then echo @word@; else echo @word@; fi", "echo -e 'x\\ty\\n'@quoted@",
        "echo @word@ | { read r; echo $r; }", "@func@", "echo @name@",
    ),
    "prefix": ("", "", "", "", "", "", "@var@=@word@ "),
    "assignment": (
        "@var@=@word@", "@var@=@word@", "@var@=@word@", "@var@+=@word@", "@var@=@name@", "@arr@=(@words@)",
        "@arr@=( @word@ @words@)",
        "@arr@+=( @word@)", "@arr@[2]=@word@", "@var@='alpha a b'", "export @var@=@word@", "declare @var@=@word@",
        "declare -u @var@=@quoted@", "declare -i @var@=1+1", "declare -i @var@=u+1", "readonly ro@new@=@quoted@", "unset @var@",
        "printf -v @var@ '%s-' @word@", "set --@words@", "@var@=@var@", "IFS=@ifs@", "unset IFS", "(( @num@ ))", "let '@num@'",
        "read @var@ @var@ <<< @word@", "read -r @var@ <<< @word@", "shift", "declare -n n@new@=@var@; n@same@=@quoted@",
        "IFS=: read @var@ x <<< @quoted@", 'declare -A m; m[a]=@word@; @name@ "${m[@]}" ${m[a]}', "mapfile -t @arr@ <<< @word@",
        "IFS=, read -ra @arr@ <<< @word@", "local @var@=@word@", "@arr@=([1]=@word@ z [0]=@quoted@)", "unset '@arr@[0]'",
    ),
    "ifs": (":", ",", "' '", "a", "", "$' \\t\\n'", "' ,'"),
    "condition": (
        "true", "false", "@simple@", '[ -z "$@var@" ]', "[[ $@var@ == a* ]]", "[[ $@var@ == $u ]]", "[[ $@var@ = ? ]]",
        "(( @num@ ))",
        '[ "$@var@" = @quoted@ ]', "! @simple@", "[[ -n $@var@ && $@var@ != b ]]", "test $@var@", "[[ $@var@ -gt 1 ]]",
        "{ @simple@; }",
        "@simple@ && true", "@var@=$(@printing@)",
    ),
    "leave": ("", "", "; break", "; @condition@ && break", "; @condition@ && continue; @simple@"),
    "loop": (
        "for @var@ in@words@; do @block@@leave@; done", "for @var@; do @block@; done",
        "i@new@=0; while [ $i@same@ -lt 3 ]; do (( i@same@++ )); @simple@ $i@same@@leave@; done",
        "j@new@=0; until (( j@same@ >= 2 )); do j@same@=$((j@same@+1)); @simple@@leave@; done",
        "for (( k@new@=0; k@same@<3; k@same@++ )); do @simple@; @assignment@@leave@; done",
        "while read @var@; do @simple@ $u; done <<< $'one two\\nthree'",
        "while read -r u r; do @block@; done <<EOT\nfour $@var@ five\n@constant@ x\nEOT\n",
        "printf '%s\\n' @word@@words@ | while read @var@; do @block@; done",
        "l@new@=; while [[ $l@same@ != xxx ]]; do l@same@+=x; @name@ $l@same@; done",
    ),
    "branch": (
        "if @condition@; then @block@; fi", "if @condition@; then @block@; elif @condition@; then @block@; else @block@; fi",
        "case $@var@ in a*) @block@ @ends@ @word@|b) @block@ @ends@ *) @block@;; esac",
        "case @word@ in @quoted@) @block@ @ends@ ?|??) @block@;; [a-f]*) @block@;; esac", "@condition@ && { @block@; }",
        "@condition@ || @simple@", "@condition@ && @simple@ || @simple@",
    ),
    "ends": (";;", ";;", ";&", ";;&"),
    "definition": (
        "@func@() { @local@@block@@return@; }; @func@@words@", "function @func@ { @local@@block@; }", "@func@() ( @block@ )",
        '@func@() { @name@ "$@"; shift; @name@ $1 $#; }; @func@ @word@@words@',
        'fself() { @name@ $1 "$@var@"; [ $1 -gt 0 ] && fself $(($1-1)) @word@; @assignment@; @simple@; }; fself @count@ @word@',
        'fself() { @assignment@; (( $# > @count@ )) && return; fself "$@" x; @name@ "$@var@"; }; fself',
        """fself() { if (( d@new@++ > @count@ )); then @block@; else fother $1; fi; }
fother() { fself @word@; @name@ $@var@; }; fother 1""",
    ),
    "count": ("1", "3", "7", "12"),
    "local": ("", "local @var@=@word@; ", "local u; "),
    "return": ("", "", "; return", "; @condition@ && return; @simple@"),
    "dynamic": (
        "eval @word@", "eval '@name@ a; @name@ $u'", "$@var@@words@", "@word@@words@", "@var@='@name@ z'; $@var@",
        "alias @alias@='@name@ k'",
        "alias @alias@='@name@; @name@'", "@alias@@words@", "alias aone='@name@ '; alias atwo=zz", '"${@arr@[@]}"',
        "@func@@words@",
        "command @simple@", ". <(echo @quoted@)", "source /dev/stdin <<< '@name@ 1 $u'", "trap '@name@ $@var@' EXIT",
        'eval "$@var@"',
        "eval @name@ \\$@var@", "@name@ <<EOT\n$@var@ @sub@\nEOT\n", "! @simple@", "@simple@ &\nwait",
        "builtin eval @name@ 'q r'",
        "[[ @var@[$(@simple@)] -eq 1 ]]", "exec 3<<< @word@; read @var@ <&3", "@rare@",
    ),
    "rare": ("@simple@", "@simple@", "exit", "exit 3", "coproc { @simple@; }; wait", "return"),
    "compound": (
        "( @block@ )", "{ @block@; }", "@simple@ | @command@", "@command@ && @command@", "@assignment@ && @command@",
        "@assignment@; @simple@",
        "{ @block@; } 2>/dev/null", '@assignment@\n@name@ @exp@ "@exp@"', "@printing@ | { read @var@ y; @name@ $@var@ $y; }",
    ),
    "command": (
        *("@assignment@",) * 5, *("@prefix@@simple@",) * 4, *("@dynamic@",) * 3, *("@loop@",) * 2, *("@branch@",) * 2,
        "@definition@", *("@compound@",) * 3,
    ),
    "block": ("@command@", "@command@", "@command@; @command@"),
}  # fmt: skip
_SLOT = re.compile("@(\\w+)@")
_DEEPEST = {
    "command": "@name@ @exp@",
    "piece": "@quoted@",
    "sub": "$(echo z)",
    "printing": "echo @quoted@",
    "block": "@name@ b",
    "words": "",
}


class Generator:
    """Generator of scripts; equal seeds give equal scripts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311  # not for secrets
        self.depth = 0
        self.counter = 0

    def script(self) -> str:
        lines = ["shopt -s expand_aliases"] if self.random.random() < 0.3 else []
        lines += [self.filled("@command@") for _ in range(self.random.randint(2, 7))]
        return "\n".join(lines) + "\n"

    def filled(self, template: str) -> str:
        self.depth += 1
        text = _SLOT.sub(lambda slot: self.slot(slot[1]), template)
        self.depth -= 1
        return text

    def slot(self, name: str) -> str:
        if self.depth > 9 and name in _DEEPEST:
            return self.filled(_DEEPEST[name])
        if name in _TEMPLATES:
            return self.filled(self.random.choice(_TEMPLATES[name]))
        if name in _LISTS:
            return self.random.choice(_LISTS[name])
        if name in ("new", "same"):
            self.counter += name == "new"
            return str(self.counter)
        if name == "quoted":
            text = self.random.choice(_PIECES)
            return self.random.choice((f"'{text}'", f'"{text}"', f"$'{text}\\x41'", text.strip().replace(" ", "\\ ") or "''"))
        if name == "simple":
            return self.filled("@name@@words@")
        if name == "words":
            return "".join(self.filled(" @word@") for _ in range(self.random.randint(0, 3)))
        return "".join(self.filled("@piece@") for _ in range(self.random.randint(1, 2)))


# -- bash ----------------------------------------------------------------------------------------------------------


def why_not() -> str:
    """Return why the sandbox can't be used here, or "" if it can."""
    if shutil.which("bwrap") is None or not Path("/bin/bash").exists():
        return "bubblewrap (bwrap) or bash is not installed"
    tried = subprocess.run(
        [*_sandbox(Path("/usr"), Path("/tmp")), "/bin/bash", "-c", ":"], capture_output=True, timeout=60
    )  # only to try it
    return "" if tried.returncode == 0 else f"bubblewrap does not work here: {tried.stderr.decode(errors='replace')[:200]}"


def _sandbox(scripts: Path, out: Path) -> list[str]:
    return [
        "bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--ro-bind", "/usr", "/usr",
        "--symlink", "usr/bin", "/bin",
        "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs",
        "/empty",
        "--ro-bind", str(scripts), "/scripts", "--bind", str(out), "/out", "--setenv", "HOME", "/home/dev", "--cap-drop", "ALL",
    ]  # fmt: skip


def recorded(scripts: Sequence[str]) -> list[list[tuple[str, ...]]]:
    """Return the commands that bash executed in each script."""
    with tempfile.TemporaryDirectory() as name:
        folder, out = Path(name) / "scripts", Path(name) / "out"
        folder.mkdir()
        out.mkdir()
        (folder / "prelude").write_text(PRELUDE)
        for index, script in enumerate(scripts):
            (folder / f"{index:06}.sh").write_text(f"BASH_ARGV0=bash\n{script}")  # $0 would be the file's name
        subprocess.run([*_sandbox(folder, out), "/bin/bash", "-c", _DRIVER], check=False, timeout=600, capture_output=True)
        return [_records(out / f"{index:06}.sh") for index in range(len(scripts))]


def _records(path: Path) -> list[tuple[str, ...]]:
    errors = Path(f"{path}.err")
    if errors.exists() and b"maximum function nesting level exceeded" in errors.read_bytes():
        return []  # bash exits at once, and restores nothing
    fields = path.read_bytes().decode(errors="replace").split("\0") if path.exists() else []
    found: list[tuple[str, ...]] = []
    at = 0
    while at < len(fields) and fields[at].isdigit() and len(found) < _MAX_RECORDS:
        count = int(fields[at])
        found.append(tuple(fields[at + 1 : at + 1 + count]))
        at += 1 + count
    return found


# -- the comparison ------------------------------------------------------------------------------------------------


def _shape(act: Act) -> str:
    """Return a regular expression for the argv, each word ended by a NUL; a HOLE may also be several words, or none."""
    out: list[str] = []
    for value in act.argv:
        if value.text == HOLE or (value.pattern and value.text == "*"):
            if out[-1:] != [_ANY_WORDS]:
                out.append(_ANY_WORDS)
        else:
            out.append(re.escape(value.text).replace(HOLE, ".*") + r"\x00")
    holes = [index for index, piece in enumerate(out) if ".*" in piece]
    if len(holes) > _MAX_HOLES:  # a regular expression would take too long: allow anything between the first and the last
        out[holes[0] : holes[-1] + 1] = [_ANY_WORDS]
    return "".join(out)


def _comes_from(argv: tuple[str, ...], code: str) -> bool:
    """Return whether evaluating ``code``, which contains a HOLE, may have executed ``argv``. A HOLE at the beginning of the code
    may be any command.
    """
    return HOLE in code.split(maxsplit=1)[0] or argv[0] in code


def missed(script: str, argvs: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the executed commands that the interpreter does not list, or none if it reports that it can't know."""
    meaning = interpret(script, ShellNow(cwd="/empty", home="/home/dev"), NoFiles())
    if any(fault.kind == "opaque" for fault in meaning.faults):
        return [("@opaque", str(meaning.faults))]
    if meaning.faults:
        return []
    codes = [code.text.text for act in meaning.acts for code in act.code if HOLE in code.text.text]
    exact = {tuple(value.text for value in act.argv) for act in meaning.acts}
    shapes: list[re.Pattern[str]] | None = None
    found: list[tuple[str, ...]] = []
    for argv in dict.fromkeys(argvs):
        if argv in exact:
            continue
        if shapes is None:
            shapes = [
                re.compile(_shape(act), re.DOTALL) for act in meaning.acts if act.argv and any(HOLE in v.text for v in act.argv)
            ]
        text = "".join(f"{word}\0" for word in argv)
        if not any(shape.fullmatch(text) for shape in shapes) and not any(_comes_from(argv, code) for code in codes):
            found.append(argv)
    return found


def check(seeds: Sequence[int]) -> tuple[int, int, list[tuple[int, str, list[tuple[str, ...]]]]]:
    """Return (number of commands that bash executed, number listed without a HOLE, missed commands) of these seeds' scripts."""
    scripts = [Generator(seed).script() for seed in seeds]
    commands = exact = 0
    wrong: list[tuple[int, str, list[tuple[str, ...]]]] = []
    for seed, script, argvs in zip(seeds, scripts, recorded(scripts), strict=True):
        commands += len(argvs)
        lost = missed(script, argvs)
        if lost:
            wrong.append((seed, script, lost))
        acts = interpret(script, ShellNow(cwd="/empty", home="/home/dev"), NoFiles()).acts
        known = {tuple(value.text for value in act.argv) for act in acts}
        exact += sum(1 for argv in argvs if argv in known)
    return commands, exact, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=5, help="how many misses are printed in full")
    parser.add_argument("--keep", type=Path, help="a folder for every script with a miss, named by its seed")
    given = parser.parse_args()
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    if reason := why_not():
        print(reason)
        return 2
    end = time.monotonic() + 60 * given.minutes
    seed, scripts, commands, exact, misses = given.seed, 0, 0, 0, 0
    while time.monotonic() < end:
        done, same, wrong = check(range(seed, seed + 200))
        seed, scripts, commands, exact, misses = seed + 200, scripts + 200, commands + done, exact + same, misses + len(wrong)
        for number, script, lost in wrong if given.keep is not None else ():
            (given.keep / f"{number}.sh").write_text(f"# not listed: {lost!r}\n{script}", encoding="utf-8")
        for number, script, lost in wrong[: max(0, given.show - misses + len(wrong))]:
            print(f"--- seed {number}: not listed: {lost[:5]}\n{script}")
    print(
        f"{scripts} scripts, {commands} commands executed, {exact} listed word for word, {misses} scripts with a command missed"
    )
    return int(misses > 0)


if __name__ == "__main__":
    sys.exit(main())
