"""Python's network libraries, its decoders, and the rest of what gives texts from elsewhere."""

from __future__ import annotations

import functools
from collections.abc import Callable

from tools.judge.languages import _decode
from tools.judge.languages import _python_pure as pure
from tools.judge.languages._python_evaluator import Effect, Evaluator
from tools.judge.languages._python_pure import arg
from tools.judge.languages._python_values import Data, Obj, Thing, Unknown, dump, taint_of, text
from tools.judge.languages._tell import join
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value

# -- network -------------------------------------------------------------------------------------------------------


def _method_of(args: list[Thing], named: dict[str, Thing], verb: str) -> tuple[Thing, list[Thing]]:
    if verb == "request":
        return arg(args, named, 1, "url"), [arg(args, named, 0, "method")]
    return arg(args, named, 0, "url"), []


def request(verb: str) -> Effect:
    """``requests.get`` and its relatives: a read, or a send where something goes with it."""

    def effect(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
        url, _ = _method_of(args, named, verb)
        if verb in ("post", "put", "patch") and len(args) > 1:
            named = {"data": args[1], **named}
        where = text(url)
        if isinstance(url, Obj):
            where = text(url.fields.get("url"))
            named = {**url.fields, **named}
        body = [named[key] for key in ("data", "json", "files", "content", "body") if named.get(key) is not None]
        private = [
            named[key] for key in ("params", "headers", "cookies") if taint_of(named.get(key)) & (Taint.SECRET | Taint.LOCAL)
        ]
        if body or private:
            m.tell.send(dump((body or private)[0]), where)
        else:
            m.tell.fetch(where)
        return Obj("response", None, taint=Taint.REMOTE)

    return effect


def _urlopen(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    if len(args) > 1:
        named = {"data": args[1], **named}
    return request("get")(m, args, named)


def _request_object(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    data = arg(args, named, 1, "data", None)
    return Obj("request", None, url=arg(args, named, 0, "url"), data=data, headers=arg(args, named, 2, "headers", None))


def _retrieve(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    path = text(arg(args, named, 1, "filename"))
    m.tell.download(text(arg(args, named, 0, "url")), path)
    return (path, Unknown(Taint.REMOTE))


def _socket(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return Obj("socket", None, taint=Taint.REMOTE)


def _connection(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    address = arg(args, named, 0, "address")
    host, port = (address[0], address[1]) if type(address) is tuple and len(address) > 1 else (Unknown(), Unknown())
    return Obj("socket", None, host=text(host), port=text(port), taint=Taint.REMOTE)


def _by_default(path: str) -> Effect:
    """Return the effect of a library that finds a socket by itself."""

    def effect(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
        m.tell.connect(Value(path))
        return Unknown(Taint.REMOTE)

    return effect


def _look_up(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    m.tell.look_up(text(arg(args, named, 0, "host")))
    return Unknown(Taint.REMOTE)


def _service(scheme: str) -> Effect:
    def effect(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
        host = text(arg(args, named, 0, "host"))
        return Obj("service", None, url=join([Value(f"{scheme}://"), host]), taint=Taint.REMOTE)

    return effect


# -- decoding ------------------------------------------------------------------------------------------------------


def decoder(function: Callable[[bytes], bytes | str | None]) -> Effect:
    return lambda m, args, named: pure.decoded(arg(args, named, 0, "s"), function)


def _codecs_decode(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    codec = text(arg(args, named, 1, "encoding", Value("utf-8"))).text
    plain = codec.lower().replace("-", "") in ("utf8", "ascii")
    found = pure.decoded(arg(args, named, 0, "obj"), lambda raw: _decode.by_codec(codec, raw))
    return found._replace(taint=found.taint & ~Taint.DECODED) if plain and isinstance(found, Value | Data) else found


def _unquote(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return pure.decoded(arg(args, named, 0), lambda raw: _decode.unquoted(raw.decode("utf-8", "replace")))


def _first(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return args[0] if args else Unknown()


def _quote(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    given = text(arg(args, named, 0))
    return given if given.text.isalnum() else given._replace(text="'" + given.text.replace("'", "'\\''") + "'")


def _secret_input(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return Value(HOLE, Taint.UNKNOWN | Taint.SECRET)


def _library(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    path = text(arg(args, named, 0, "name", None))
    if "/" in path.text or not path.known:
        m.tell.code("native", Value(HOLE, path.taint | Taint.UNKNOWN), path.text)
    return Obj("library")


def _sql_text(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return text(args[0]) if args else ANYTHING


NETWORK: dict[str, Effect] = {
    "urllib.request.urlopen": _urlopen,
    "urllib.urlopen": _urlopen,
    "urllib.request.Request": _request_object,
    "urllib.request.urlretrieve": _retrieve,
    "urllib.urlretrieve": _retrieve,
    "wget.download": _retrieve,
    "socket.socket": _socket,
    "socket.create_connection": _connection,
    **dict.fromkeys(("socket.gethostbyname", "socket.gethostbyname_ex", "socket.getaddrinfo"), _look_up),
    "docker.from_env": _by_default("/var/run/docker.sock"),
    "dbus.SystemBus": _by_default("/run/dbus/system_bus_socket"),
    "dbus.SessionBus": _by_default("/run/user/0/bus"),
    "paramiko.Agent": _by_default("/tmp/ssh-0/agent.0"),  # noqa: S108 - a socket of this kind
    "http.client.HTTPConnection": _service("http"),
    "http.client.HTTPSConnection": _service("https"),
    "smtplib.SMTP": _service("smtp"),
    "smtplib.SMTP_SSL": _service("smtps"),
    "ftplib.FTP": _service("ftp"),
    "ftplib.FTP_TLS": _service("ftps"),
    "base64.b64decode": decoder(_decode.base64_text),
    "base64.urlsafe_b64decode": decoder(_decode.base64_text),
    "base64.standard_b64decode": decoder(_decode.base64_text),
    "base64.decodebytes": decoder(_decode.base64_text),
    "base64.decodestring": decoder(_decode.base64_text),
    "binascii.a2b_base64": decoder(_decode.base64_text),
    "binascii.unhexlify": decoder(lambda raw: _decode.hex_text(raw.decode("latin-1"))),
    "binascii.a2b_hex": decoder(lambda raw: _decode.hex_text(raw.decode("latin-1"))),
    "bytes.fromhex": decoder(lambda raw: _decode.hex_text(raw.decode("latin-1"))),
    "bytearray.fromhex": decoder(lambda raw: _decode.hex_text(raw.decode("latin-1"))),
    "zlib.decompress": decoder(_decode.inflated),
    "gzip.decompress": decoder(_decode.inflated),
    "bz2.decompress": decoder(lambda raw: _decode.unpacked("bz2", raw)),
    "lzma.decompress": decoder(lambda raw: _decode.unpacked("lzma", raw)),
    "codecs.decode": _codecs_decode,
    "codecs.encode": _codecs_decode,
    "urllib.parse.unquote": _unquote,
    "urllib.parse.unquote_plus": _unquote,
    "urllib.unquote": _unquote,
    "html.unescape": _first,
    "textwrap.dedent": _first,
    "shlex.quote": _quote,
    "pipes.quote": _quote,
    "typing.cast": lambda m, args, named: args[1] if len(args) > 1 else Unknown(),
    "getpass.getpass": _secret_input,
    "ctypes.CDLL": _library,
    "ctypes.PyDLL": _library,
    "ctypes.cdll.LoadLibrary": _library,
    "sqlalchemy.text": _sql_text,
    "json.dumps": lambda m, args, named: dump(arg(args, named, 0, "obj")),
    "urllib.parse.urlencode": lambda m, args, named: dump(arg(args, named, 0, "query")),
    "urllib.parse.quote": lambda m, args, named: text(arg(args, named, 0)),
    **{
        f"base64.{name}": decoder(functools.partial(_decode.base_n, name))
        for name in ("b32decode", "b16decode", "b85decode", "a85decode")
    },
    **{
        f"{library}.{verb}": request(verb)
        for library in ("requests", "httpx", "requests.api")
        for verb in ("get", "post", "put", "patch", "delete", "head", "options", "request", "stream")
    },
    **dict.fromkeys(
        (
            "requests.Session",
            "requests.session",
            "httpx.Client",
            "httpx.AsyncClient",
            "aiohttp.ClientSession",
            "urllib3.PoolManager",
        ),
        lambda m, args, named: Obj("client"),
    ),
}
