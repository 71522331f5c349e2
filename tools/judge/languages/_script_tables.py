"""Tables of the script scanner, by language: tokens, effects of functions, and words that may hide any effect."""

from __future__ import annotations

from toolcrib.contract.namedtuple import NamedTuple
from tools.judge.languages._rows import Rows, rows
from tools.judge.languages._script_tokens import Lexicon


class ScriptLanguage(NamedTuple):
    """A script language. ``joins``: the operator that concatenates texts; ``members``: operators before a member's name;
    ``bare``: calls need no parentheses.
    """

    lexicon: Lexicon
    rows: Rows
    risky: frozenset[str]
    joins: str = "+"
    members: frozenset[str] = frozenset({"."})
    bare: bool = False


_JAVASCRIPT = ScriptLanguage(
    Lexicon("javascript", ("//", "#!"), (("/*", "*/"),), r"[A-Za-z_$][\w$]*", interpolating="`", plain="'\"", regexes=True),
    rows("""
require import: load 0
fs.unlink: rm 0
fs.rmdir: rmdir 0
fs.rm fs.remove rimraf: rm -r 0
fs.rename fs.move: mv 0 1
fs.copyFile: cp 0 1
fs.cp fs.copy: cp -r 0 1
fs.symlink: ln -s =0 1
fs.link: ln =0 1
fs.chmod: chmod =1 0
fs.writeFile fs.outputFile fs.createWriteStream: > 0 1
fs.appendFile: >> 0 1
fs.open: open 0
fs.readFile fs.createReadStream: < 0
child_process.exec: sh 0
child_process.spawn child_process.execFile: run 0+
child_process.fork: node 0
fetch axios.get axios.post http.get https.get http.request https.request: curl 0
dns.lookup dns.resolve dns.resolve4 dns.resolveTxt: getent hosts =0
net.connect net.createConnection tls.connect: connect 0
process.kill: kill 1 0
"""),
    frozenset("eval Function constructor Reflect Worker binding dlopen _load system ObjC mainModule vm worker_threads dgram"
              " Socket chown chdir createRequire emptyDir truncate runInThisContext Script bind call doShellScript".split()),
)  # fmt: skip
_PERL = ScriptLanguage(
    Lexicon(
        "perl", ("#",), (("=pod", "\n=cut"), ("=head", "\n=cut")), r"[$@%&]?(?:[A-Za-z_]\w*(?:::\w+)*)|[$]\^?[\w&!@]|@_",
        commands="`", regexes=True, perl_quotes=True, heredocs=True,
    ),
    rows("""
system exec: system 0+
readpipe: sh 0
unlink rm_f: rm 0+
rmdir: rmdir 0
rmtree remove_tree rm_rf: rm -r 0+
rename move mv: mv 0 1
copy cp: cp 0 1
symlink: ln -s =0 1
link: ln =0 1
chmod: chmod =0 1
kill: kill 0 1
require do: perl 0
open: open 1
"""),
    frozenset("eval tie sysopen fork connect socket Socket pack chdir truncate syscall open2 open3 IO::File LWP HTTP Net getstore"
              " chroot dbmopen Open2 Open3 uninstall _evaluate_replacement post".split()),
    ".", frozenset({"->"}), True,
)  # fmt: skip
_RUBY = ScriptLanguage(
    Lexicon("ruby", ("#",), (("=begin", "\n=end"),), r"[@$]{0,2}[A-Za-z_]\w*[?!]?", '"', "`", "'", True, True, heredocs=True),
    rows("""
system exec spawn Process.spawn IO.popen PTY.spawn: system 0+
Open3.capture2 Open3.capture2e Open3.capture3 Open3.popen2 Open3.popen3: system 0+
File.delete File.unlink FileUtils.rm FileUtils.rm_f: rm 0+
Dir.rmdir Dir.delete Dir.unlink: rmdir 0
FileUtils.rm_r FileUtils.rm_rf FileUtils.rmtree FileUtils.remove_dir rm_rf: rm -r 0+
FileUtils.mv FileUtils.move File.rename: mv 0 1
FileUtils.cp FileUtils.copy: cp 0 1
FileUtils.cp_r: cp -r 0 1
FileUtils.ln_s FileUtils.ln_sf File.symlink: ln -s =0 1
File.link: ln =0 1
File.chmod FileUtils.chmod: chmod =0 1
Process.kill: kill 0 1
File.write IO.write File.binwrite: > 0 1
File.open File.new: open 0
File.read IO.read File.readlines: < 0
load: ruby 0
Net.HTTP.get Net.HTTP.get_response URI.open: curl 0
"""),
    frozenset("eval instance_eval class_eval module_eval send public_send __send__ const_get method fork TCPSocket UNIXSocket"
              " Socket Fiddle open chdir post syscall unpack unpack1 binding pack truncate require_relative".split()),
    "+", frozenset({".", "::", "&."}), True,
)  # fmt: skip
_PHP = ScriptLanguage(
    Lexicon("php", ("//", "#"), (("/*", "*/"),), r"\$?\\?[A-Za-z_]\w*(?:\\\w+)*", commands="`", heredocs=True),
    rows("""
system exec shell_exec passthru popen proc_open: sh 0
unlink: rm 0
rmdir: rmdir 0
rename: mv 0 1
copy: cp 0 1
symlink: ln -s =0 1
link: ln =0 1
chmod: chmod =1 0
posix_kill: kill 1 0
file_put_contents: > 0 1
fopen: open 0
file_get_contents readfile file: < 0
include require include_once require_once: php 0
"""),
    frozenset("eval assert create_function call_user_func call_user_func_array array_map array_filter usort pcntl_exec pcntl_fork"
              " fsockopen pfsockopen curl_init stream_socket_client chdir mail dl unserialize".split()),
    ".", frozenset({"->", "::"}), True,
)  # fmt: skip
_LUA = ScriptLanguage(
    Lexicon("lua", ("--",), (("--[[", "]]"),), interpolating="", plain="'\""),
    rows("""
os.execute io.popen: sh 0
os.remove: rm 0
os.rename: mv 0 1
io.open: open 0
io.output: > 0
io.lines io.input: < 0
dofile loadfile: lua 0
"""),
    frozenset("load loadstring _G _ENV debug loadlib ffi socket posix lfs execute package".split()),
    "..", frozenset({".", ":"}), True,
)  # fmt: skip
SCRIPTS = {one.lexicon.name: one for one in (_JAVASCRIPT, _PERL, _RUBY, _PHP, _LUA)}
