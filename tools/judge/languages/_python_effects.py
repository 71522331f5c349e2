"""Effects of the functions in Python's libraries. A standard-library function that no table names may do anything."""

from __future__ import annotations

import builtins
import sys

from toolcrib.contract.regex import Regex
from tools.judge.languages._rows import report, rows
from tools.judge.languages._tell import FOUND, Tell, join
from tools.judge.languages._things import (
    Many,
    Name,
    OwnFunction,
    Thing,
    Written,
    computed,
    elements,
    is_hidden,
    is_known,
    of_path,
    path_join,
    plain,
    taint_of,
    text,
    unknown,
)  # fmt: skip
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value

_HARMLESS = frozenset(
    """abc argparse array ast asyncio atexit base64 binascii bisect calendar cmath codecs collections colorsys concurrent
    configparser contextlib contextvars copy csv curses dataclasses datetime decimal difflib email enum errno fcntl fnmatch
    fractions functools getopt getpass gettext glob graphlib gzip hashlib heapq hmac html http importlib.metadata
    importlib.resources importlib.util.find_spec inspect io ipaddress itertools json keyword locale logging lzma math
    mimetypes multiprocessing numbers operator os.path os.getpid os.getppid os.getuid os.getgid os.uname os.stat os.lstat
    os.access os.cpu_count os.makedirs os.mkdir os.environ os.urandom os.fsencode os.utime os._exit os.close os.read os.fsync
    os.fstat os.sep os.isatty os.readlink os.wait os.waitpid os.getloadavg os.get_terminal_size os.linesep os.name os.devnull
    optparse pathlib pickle.dumps pickle.dump platform plistlib pprint pstats queue random re termios secrets select selectors
    shlex shutil.disk_usage shutil.ignore_patterns shutil.copyfileobj shutil.Error signal socket socketserver sqlite3 ssl stat
    statistics string struct subprocess.CalledProcessError subprocess.TimeoutExpired subprocess.PIPE subprocess.DEVNULL
    subprocess.STDOUT sys sysconfig tempfile textwrap threading time token tokenize tomllib traceback tracemalloc types typing
    unicodedata unittest urllib.parse urllib.error uuid warnings weakref xml zlib zoneinfo""".split()
)
"""Modules and functions of the standard library that count as harmless: they compute, read, print, wait or create folders."""
_NOT_HARMLESS = frozenset(
    """logging.config http.client sys._getframe sys.settrace sys.setprofile sys.addaudithook unittest.mock
    asyncio.create_subprocess_exec typing.get_type_hints operator.methodcaller operator.attrgetter types.FunctionType
    types.CodeType argparse.FileType multiprocessing.managers inspect.currentframe tempfile.TemporaryDirectory._rmtree""".split()
)
_BUILTINS = frozenset(dir(builtins)) - {"globals", "locals", "breakpoint", "delattr", "eval", "exec"}
_RISKY = frozenset(
    "sh plumbum pexpect paramiko fabric invoke docker dbus cffi pip pyautogui keyring setuptools psutil boto3".split()
)
"""Third-party libraries that run programs or other code, or control what the user sees and types."""
_ALIASES = {"posix": "os", "posixpath": "os.path", "_io": "io", "_socket": "socket", "cPickle": "pickle", "dill": "pickle"}
_KEYWORDS = "path src top fd file filename name url address args cmd command source database dst target mode data".split()
"""Names of parameters, in their usual order."""

ROWS = rows("""
os.remove os.unlink .unlink: rm 0
os.rmdir .rmdir: rmdir 0
shutil.rmtree .rmtree: rm -r 0
os.rename os.replace shutil.move .rename .replace: mv 0 1
shutil.copy shutil.copy2 shutil.copyfile: cp 0 1
shutil.copytree: cp -r 0 1
shutil.unpack_archive: unzip 0 -d 1
.extractall: unzip =0 -d 1
os.chmod .chmod: chmod =1 0
os.symlink: ln -s =0 1
os.link: ln =0 1
os.kill: kill 1 0
.symlink_to: ln -s =1 0
.write_text .write_bytes: > 0 1
logging.FileHandler logging.basicConfig logging.handlers.RotatingFileHandler: >> 0
sqlite3.connect: database
.read_text .read_bytes: < 0
runpy.run_path: python3 0
urllib.request.urlretrieve: curl -o 1 =0
socket.gethostbyname socket.getaddrinfo: getent hosts =0
.drop_database .drop_collection: @mongo db.dropDatabase()
open .open io.open io.FileIO codecs.open gzip.open bz2.open lzma.open: open
zipfile.ZipFile tarfile.open tarfile.TarFile: archive
subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen pty.spawn: program
os.system os.popen subprocess.getoutput asyncio.create_subprocess_shell: shell
eval exec: evaluate
__import__ importlib.import_module: module
getattr: attribute
setattr vars: names
requests.get requests.post requests.put httpx.get httpx.post urllib.request.urlopen urllib2.urlopen: web
socket.create_connection .connect: connect
os.getenv os.environ.get: variable
.execute .executescript .executemany .exec_driver_sql: query
os.chdir: chdir
pathlib.Path pathlib.PurePath os.path.join .joinpath: join
os.path.dirname os.path.basename: part
os.path.expanduser os.path.abspath os.path.realpath os.path.normpath os.fspath str bytes compile list sorted set tuple iter: same
map filter: second
urllib.request.Request: all
glob.glob glob.iglob os.listdir os.scandir os.walk: found
shutil.which: which
""")
"""The row of each function or method (``.name``); argument 0 of a method is its object. A row of one word is the name of a method
``_do_...`` of PythonEffects, or of a case in its ``_act`` or ``_value``.
"""
_VALUES = frozenset("open archive attribute variable join part same second all found which".split())
"""Rows of functions that compute, look something up or open a file. They do not make a program opaque that passes them on."""
PACKAGE = Value(f"{HOLE}/site-packages/x/x.py", Taint.UNKNOWN)
"""A file of a library, with an unknown path."""
TEMPORARY = Value(f"/tmp/tmp{HOLE}", Taint.UNKNOWN)  # noqa: S108 - a path that analysed code may use; nothing is written there
FIXTURE = TEMPORARY._replace(shown="tmp_path")
"""The folder that pytest gives to a test."""
_FIXED: dict[str, Thing] = {
    **dict.fromkeys(("pathlib.Path", "pathlib.Path.cwd", "os.getcwd"), Value(".")),
    **dict.fromkeys(("tempfile.mkdtemp", "tempfile.TemporaryDirectory", "tempfile.NamedTemporaryFile"), TEMPORARY),
    "pathlib.Path.home": Value("~"),
    "os.listdir": Many([Value("*", pattern=True)]),
    "site.getsitepackages": [PACKAGE._replace(text=f"{HOLE}/site-packages")],
    "site.getusersitepackages": PACKAGE._replace(text=f"{HOLE}/site-packages"),
}
"""Results of functions that are called without arguments."""
_SECRET_NAME = Regex(r"(?i)KEY|TOKEN|SECRET|PASS|CRED|AUTH")
_SQL = Regex(r"(?i)\s*(?:--.*\n\s*|/\*.*?\*/\s*)*[A-Z]{2,10}\b")


def canonical(path: str) -> str:
    """Return the main name of a library's object that has several names."""
    before, _, last = path.rpartition(".")
    if before in ("builtins", "__builtins__") or (before and last in ("os", "sys", "subprocess", "shutil", "builtins", "socket")):
        return last
    head, dot, rest = path.partition(".")
    return _ALIASES.get(head, head) + dot + rest


def is_risky(path: str) -> bool:
    """Return whether a function with this name may have unknown effects."""
    top, dot, _ = path.partition(".")
    if top not in sys.stdlib_module_names:
        return top in _RISKY if dot else top not in _BUILTINS
    prefixes = {path[:at] for at in range(len(path) + 1) if path[at : at + 1] in ("", ".")}
    return bool(prefixes & _NOT_HARMLESS) or not prefixes & _HARMLESS


def acts(thing: Thing) -> bool:
    """Return whether a thing is a function of a library that has effects, or may have them."""
    if not isinstance(thing, Name):
        return False
    row = ROWS.get(thing.path)
    return row not in _VALUES and row[0] != "<" if row is not None else thing.owner is None and is_risky(thing.path)


def content(*things: Thing) -> Value:
    """Return the joined text of ``things`` that are written or sent, without the taint COMPUTED."""
    found = join([text(one) for one in things])
    return found._replace(taint=found.taint & ~Taint.COMPUTED)


class PythonEffects:
    """Reports the effects of functions to ``tell``. ``opaque``: the program may have effects that were not found."""

    tell: Tell
    opaque = False

    def module(self, name: str) -> Thing:
        raise NotImplementedError

    def attribute(self, owner: Thing, name: str) -> Thing:
        raise NotImplementedError

    def evaluate(self, source: Value) -> Thing:
        raise NotImplementedError

    def hide(self) -> Value:
        self.opaque = True
        return ANYTHING

    def place(self, thing: Thing) -> Value:
        """Return the path that a thing names. If it may be hidden, the program becomes ``opaque``."""
        self.opaque |= is_hidden(text(thing))
        return text(thing)

    def effect(self, path: str, args: list[Thing], named: dict[str, Thing]) -> Thing:
        """Report a function's effects and return its result; NotImplemented if the function is in no table."""
        args = [*args, *(named[key] for key in _KEYWORDS if key in named)]
        row = ROWS.get(path, "")
        if not args:
            return _FIXED.get(path, NotImplemented)
        if args[0] is FIXTURE and row[:2] == "rm":
            return None
        if not row or (path in (".replace", ".rename") and (len(args) != 2 or named)):
            return NotImplemented
        if " " in row:
            paths = 1 if row[0] == ">" else 2
            given = [Value(f"{one:o}") if "chmod" in row and isinstance(one, int) else self.place(one) for one in args[:paths]]
            return report(self.tell, row, [*given, *map(content, args[paths:])], "python")
        if method := getattr(self, f"_do_{row}", None):
            return method(args, named)
        return self._value(row, args, path) if row in _VALUES else self._act(row, args)

    def _do_open(self, args: list[Thing], named: dict[str, Thing]) -> Thing:
        if isinstance(args[0], int | Written):
            return unknown(Taint.LOCAL) if isinstance(args[0], int) else args[0]
        self.opaque |= "opener" in named
        path, mode = self.place(args[0]), text(args[1] if len(args) > 1 else Value("r")).text
        if mode[:1] in ("r", "U") and "+" not in mode:
            return self.tell.read(path)
        return Written(path, self.tell.begin(path, append=mode[:1] == "a" or "+" in mode))

    def _do_archive(self, args: list[Thing], named: dict[str, Thing]) -> Thing:
        found = self._do_open(args, named)
        return found._replace(packs=True) if isinstance(found, Written) else found

    def _do_database(self, args: list[Thing], named: dict[str, Thing]) -> Thing:
        """Report the file of a database, which is created if it is missing. A name in the working folder is only read."""
        path = self.place(args[0])
        if "/" in self.tell.place(path).text or path.text[:1] == ".":
            self.tell.write(path, append=True)
        return self.tell.read(path)

    def _do_program(self, args: list[Thing], named: dict[str, Thing]) -> Thing:
        """Report the program that ``subprocess.run`` or a similar function starts."""
        command, stdin, cwd, env = args[0], named.get("input", named.get("stdin")), named.get("cwd"), named.get("env")
        variables = {str(key): text(value) for key, value in env.items()} if isinstance(env, dict) else {}
        how = (content(stdin) if stdin is not None else None, text(cwd) if cwd is not None else None, variables)
        words = [text(one) for one in command] if isinstance(command, list) and command else [text(command)]
        self.opaque |= type(command) is Many or "executable" in named
        if named.get("shell") not in (None, False) or (not isinstance(command, list) and " " in words[0].text):
            self.tell.shell(words[0], *how)
        else:
            self.tell.run(words, *how)
        return unknown(Taint.REMOTE if words[0].text.startswith(("curl", "wget")) else Taint.NONE)

    def _do_web(self, args: list[Thing], named: dict[str, Thing]) -> Thing:
        """Report a request by ``requests.get``, ``urlopen`` or a similar function: it sends if data is passed, else it reads."""
        url, *body = [*args[0], *args[1:]] if isinstance(args[0], list) else args
        named = {key: Value(repr(one)) if key == "json" and not taint_of(one) else one for key, one in named.items()}
        body += [one for key, one in named.items() if key in ("json", "files") or taint_of(one) & (Taint.SECRET | Taint.LOCAL)]
        return self.tell.send(content(body[0]), text(url)) if body else self.tell.fetch(text(url))

    def _act(self, row: str, args: list[Thing]) -> Thing:
        """Report the effect of a row that needs its own code."""
        first, known = text(args[0]), is_known(args[0])
        match row:
            case "shell":
                self.opaque |= len(args) > 1  # its input is unknown
                return self._do_program(args[:1], {"shell": True})
            case "evaluate":
                if first.taint & Taint.FED:  # the text itself is read here
                    self.tell.code("python", Value("", Taint.FED))
                return self.evaluate(first)
            case "module":
                return self.module(first.text) if known else self.hide()
            case "names":  # the names in a library's module are unknown
                return self.hide() if isinstance(args[0], Name | OwnFunction) else unknown(taint_of(*args))
            case "connect" if isinstance(args[-1], list) and len(args[-1]) > 1:  # any of the program's data may go there
                self.tell.send_to(unknown(), text(args[-1][0]), text(args[-1][1]))
            case "connect":
                self.tell.connect(self.place(args[-1]))
            case "query" if len(args) > 1 and _SQL.match(text(args[1]).text):
                self.tell.code("sql", text(args[1]))
            case "chdir":
                self.tell.cwd = self.tell.place(self.place(first))
        return unknown(Taint.REMOTE if row == "connect" else Taint.NONE)

    def _value(self, row: str, args: list[Thing], path: str) -> Thing:
        """Return the result of a function that computes or looks something up: the rows in ``_VALUES``, except ``open``."""
        first, known = text(args[0]), is_known(args[0])
        match row:
            case "join":
                return path_join(*map(text, args))
            case "part":
                return of_path(first, "parent" if path.endswith("dirname") else "name")
            case "found":
                end = {"os.listdir": "*", "os.scandir": f"{first.text}/*", "os.walk": f"{first.text}/**"}.get(path, first.text)
                found, name = first._replace(text=end, pattern=True), Many([Value("*", pattern=True)])
                return Many([[found, name, name] if path == "os.walk" else found])
            case "which":
                return Value(f"{FOUND}{first.text}", Taint.MAYBE) if known and "/" not in first.text else unknown()
            case "variable":
                secret = not known or _SECRET_NAME.search(first.text) is not None
                return Value("~") if first.text == "HOME" else unknown(Taint.SECRET if secret else Taint.NONE)
            case "attribute":
                if len(args) > 1 and is_known(args[1]):
                    return self.attribute(args[0], str(plain(args[1])))
                return self._act("names", args)
            case "second":
                self.opaque |= acts(args[0])
                same = isinstance(args[0], Name) and ROWS.get(args[0].path) in ("same", "join")
                return args[-1] if same else Many([computed(*elements(args[-1]))])
        return args if row == "all" else args[0]
