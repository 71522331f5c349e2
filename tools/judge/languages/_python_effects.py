"""Effects of Python's functions: each by its full name, reported in the shell's words."""

from __future__ import annotations

from tools.judge.languages import _python_pure as pure
from tools.judge.languages._python_builtins import BUILTINS, write_to
from tools.judge.languages._python_evaluator import Effect, Evaluator
from tools.judge.languages._python_network import NETWORK
from tools.judge.languages._python_processes import PROCESSES
from tools.judge.languages._python_pure import arg
from tools.judge.languages._python_values import (
    PACKAGES,
    ManyThings,
    Obj,
    PathThing,
    Thing,
    Unknown,
    dump,
    taint_of,
    text,
)
from tools.judge.languages._tell import FOUND, join
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value

# -- files ---------------------------------------------------------------------------------------------------------


def _remove(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.remove(text(arg(args, named, 0, "path")))


def _rmdir(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.remove_folder(text(arg(args, named, 0, "path")))


def _removedirs(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.remove_folder(text(arg(args, named, 0, "name")), parents=True)


def _rmtree(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.remove(text(arg(args, named, 0, "path")), recursive=True)


def _move(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.move(text(arg(args, named, 0, "src")), text(arg(args, named, 1, "dst")))


def _copy(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.copy(text(arg(args, named, 0, "src")), text(arg(args, named, 1, "dst")))


def _copytree(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.copy(text(arg(args, named, 0, "src")), text(arg(args, named, 1, "dst")), recursive=True)


def _unpack_archive(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.unpack(text(arg(args, named, 0, "filename")), text(arg(args, named, 1, "extract_dir", Value("."))))


def _copyfileobj(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    source, target = arg(args, named, 0, "fsrc"), arg(args, named, 1, "fdst")
    given = dump(source) if isinstance(source, Obj) else Value(HOLE, taint_of(source) | Taint.UNKNOWN)
    write_to(m, target, given)


def _chmod(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    mode = arg(args, named, 1, "mode")
    m.tell.chmod(mode if isinstance(mode, int) else text(mode), text(arg(args, named, 0, "path")))


def _chown(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    owner, group = text(arg(args, named, 1, "user", None)), text(arg(args, named, 2, "group", None))
    m.tell.chown(owner if group.text == "None" else join([owner, Value(":"), group]), text(arg(args, named, 0, "path")))


def _symlink(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.link(text(arg(args, named, 0, "src")), text(arg(args, named, 1, "dst")), symbolic=True)


def _hardlink(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.link(text(arg(args, named, 0, "src")), text(arg(args, named, 1, "dst")), symbolic=False)


def _truncate(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.truncate(text(arg(args, named, 0, "path")), text(arg(args, named, 1, "length")))


def _compiled(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    if len(args) > 1 or "cfile" in named:
        m.tell.write(text(arg(args, named, 1, "cfile")))
    return Unknown()


def _chdir(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.cwd = m.tell.place(text(arg(args, named, 0, "path")))


def _open(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return open_file(m, arg(args, named, 0, "file"), arg(args, named, 1, "mode", Value("r")))


def open_file(m: Evaluator, path: Thing, mode: Thing) -> Thing:
    if isinstance(path, Obj):
        return path
    where = text(path) if not isinstance(path, int) else Value("/dev/stdin")
    kind = text(mode).text if isinstance(mode, Value) else HOLE if isinstance(mode, Unknown) else "r"
    if isinstance(path, int):
        return Obj("file", None, path=where, taint=Taint.LOCAL)
    if any(letter in kind for letter in "wax+") or kind == HOLE:
        number = m.tell.begin(where, append="a" in kind or "+" in kind)
        return Obj("file", None, path=where, number=number)
    content = m.tell.read(where)
    return Obj("file", None, path=where, content=content, taint=content.taint)


def _connect(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.read(text(arg(args, named, 0, "database")))
    return Unknown()


def _os_open(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    path, flags = text(arg(args, named, 0, "path")), arg(args, named, 1, "flags")
    return open_file(m, path, Value("w" if isinstance(flags, Unknown) else "r"))


def _os_write(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    write_to(m, arg(args, named, 0, "fd"), dump(arg(args, named, 1, "str")))


def _dump_to(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    write_to(m, arg(args, named, 1, "fp"), dump(arg(args, named, 0, "obj")))


def _load_from(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return Unknown(taint_of(arg(args, named, 0, "fp")) | Taint.UNKNOWN)


def _unpickle(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    taint = taint_of(arg(args, named, 0, "data"))
    if taint & (Taint.REMOTE | Taint.DECODED):
        m.tell.code("python", Value(HOLE, taint | Taint.UNKNOWN))
    return Unknown(taint | Taint.UNKNOWN)


def _marshal(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return Value(HOLE, taint_of(arg(args, named, 0)) | Taint.DECODED | Taint.UNKNOWN)


def _glob(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return [text(arg(args, named, 0, "pathname"))._replace(pattern=True)]


def _listdir(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return ManyThings(Value("*", pattern=True))


def _scandir(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    folder = text(arg(args, named, 0, "path", Value(".")))
    return ManyThings(PathThing(pure.path_join([folder, Value("*", pattern=True)])))


def _walk(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    top = text(arg(args, named, 0, "top"))
    below = pure.path_join([top, Value("**", pattern=True)])
    names = ManyThings(Value("*", pattern=True))
    return ManyThings((below, names, names))


def _expanduser(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return text(arg(args, named, 0))


def _expandvars(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    given = text(arg(args, named, 0))
    shown = given.text.replace("${HOME}", "~").replace("$HOME", "~")
    return given._replace(text=shown) if "$" not in shown else Value(HOLE, given.taint | Taint.UNKNOWN)


def _join_path(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return pure.path_join([text(one) for one in args])


def _path(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return PathThing(pure.path_join([text(one) for one in args]) if args else Value("."))


def _dirname(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    found = pure.path_attribute(text(arg(args, named, 0)), "parent")
    return found.value if isinstance(found, PathThing) else found


def _basename(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return pure.path_attribute(text(arg(args, named, 0)), "name")


def _home(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return PathThing(Value("~"))


def _here(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return m.tell.cwd if m.tell.cwd is not None else Value(".")


def _which(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    """A program of that name: where it is started, PATH says which file that is."""
    name = text(args[0]) if len(args) == 1 and not named else ANYTHING
    return Value(f"{FOUND}{name.text}", name.taint | Taint.MAYBE) if name.known and "/" not in name.text else ANYTHING


# -- environment ---------------------------------------------------------------------------------------------------


def _getenv(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    name = pure.key(arg(args, named, 0, "key"))
    return pure.variable(name if isinstance(name, str) else None)


def _putenv(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.environment[text(arg(args, named, 0)).text] = text(arg(args, named, 1))


_TEMPORARY = Value(f"/tmp/tmp{HOLE}", Taint.UNKNOWN)  # noqa: S108 - a name in what is read, not one that is used


def _temporary_file(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return Obj("file", None, path=_TEMPORARY, name=_TEMPORARY)


def _packages(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return PACKAGES


EFFECTS: dict[str, Effect] = {
    **BUILTINS,
    **PROCESSES,
    **NETWORK,
    "tempfile.gettempdir": lambda m, args, named: Value("/tmp"),  # noqa: S108 - as above
    "tempfile.mkdtemp": lambda m, args, named: _TEMPORARY,
    "tempfile.TemporaryDirectory": lambda m, args, named: _TEMPORARY,
    "tempfile.mkstemp": lambda m, args, named: (Unknown(Taint.NONE), _TEMPORARY),
    "tempfile.NamedTemporaryFile": _temporary_file,
    "open": _open,
    "os.remove": _remove,
    "os.unlink": _remove,
    "os.rmdir": _rmdir,
    "os.removedirs": _removedirs,
    "shutil.rmtree": _rmtree,
    "shutil.move": _move,
    "os.rename": _move,
    "os.renames": _move,
    "os.replace": _move,
    "shutil.copy": _copy,
    "shutil.copy2": _copy,
    "shutil.copyfile": _copy,
    "shutil.copytree": _copytree,
    "shutil.unpack_archive": _unpack_archive,
    "shutil.copyfileobj": _copyfileobj,
    "os.chmod": _chmod,
    "os.lchmod": _chmod,
    "os.chown": _chown,
    "os.lchown": _chown,
    "shutil.chown": _chown,
    "os.symlink": _symlink,
    "os.link": _hardlink,
    "os.truncate": _truncate,
    "py_compile.compile": _compiled,
    "os.chdir": _chdir,
    "os.open": _os_open,
    "os.write": _os_write,
    "io.open_code": _open,
    "sqlite3.connect": _connect,
    "gzip.open": _open,
    "bz2.open": _open,
    "lzma.open": _open,
    "json.dump": _dump_to,
    "yaml.dump": _dump_to,
    "yaml.safe_dump": _dump_to,
    "pickle.dump": _dump_to,
    "json.load": _load_from,
    "pickle.loads": _unpickle,
    "pickle.load": _unpickle,
    "yaml.unsafe_load": _unpickle,
    "marshal.loads": _marshal,
    "glob.glob": _glob,
    "glob.iglob": _glob,
    "os.listdir": _listdir,
    "os.scandir": _scandir,
    "os.walk": _walk,
    "os.path.expanduser": _expanduser,
    "os.path.expandvars": _expandvars,
    "os.path.join": _join_path,
    "os.path.dirname": _dirname,
    "os.path.basename": _basename,
    "os.path.abspath": _expanduser,
    "os.path.realpath": _expanduser,
    "os.path.normpath": _expanduser,
    "os.fspath": _expanduser,
    "os.fsdecode": _expanduser,
    "os.fsencode": _expanduser,
    "os.getcwd": _here,
    "shutil.which": _which,
    "pathlib.Path": _path,
    "pathlib.PosixPath": _path,
    "pathlib.PurePath": _path,
    "pathlib.PurePosixPath": _path,
    "pathlib.Path.home": _home,
    "pathlib.Path.cwd": lambda m, args, named: PathThing(Value(".")),
    **dict.fromkeys(("site.getusersitepackages", "sysconfig.get_path", "distutils.sysconfig.get_python_lib"), _packages),
    "site.getsitepackages": lambda m, args, named: [PACKAGES],
    "os.getenv": _getenv,
    "os.putenv": _putenv,
}
