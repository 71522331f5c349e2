"""A stored session as a document: Markdown to read and share, HTML in one file, JSON for programs."""

from __future__ import annotations

import contextlib
import html
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from agent.config import state_dir
from agent.conversation.compressed import ROLE as COMPRESSED
from agent.conversation.compressed import compression_words
from agent.conversation.imported import exported_place, exported_record
from agent.conversation.lineage import IMPORT
from agent.conversation.transcript import DELEGATE, OURS, speaker
from agent.providers._history import whole
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.paths import with_home
from toolcrib.contract.regex import Regex
from toolcrib.contract.store import SessionInfo
from tools.environments.rows import LOCAL

if TYPE_CHECKING:
    from agent.artifacts import SessionArtifact

Format: TypeAlias = Literal["markdown", "html", "json"]
SUFFIXES: Mapping[str, Format] = {".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html", ".json": "json"}
VERSION = 1
"""Version of the JSON; within a version, keys are only added."""

_TITLES = {"user": "You", "assistant": "The model", DELEGATE: "A delegate", OURS: "toolcrib"}
_TICKS = Regex(r"`{3,}")
_STYLE = """\
:root{color-scheme:light dark;--back:#fafaf9;--paper:#fff;--ink:#1c1b1a;--faint:#6b6864;--line:#e2dfda;--code:#f3f1ee;
--you:#e8f0fb;--mark:#2563a8;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--back:#161513;--paper:#1f1e1b;--ink:#e9e6e1;--faint:#9c9790;--line:#36332e;
--code:#151412;--you:#1b2a3d;--mark:#8ab8ee;--bad:#f2938c}}
*{box-sizing:border-box}
body{font:16px/1.6 system-ui,sans-serif;color:var(--ink);background:var(--back);margin:0;padding:2rem 1rem}
main{max-width:48rem;margin:auto}h1{font-size:1.5rem;line-height:1.3;margin:0 0 .5rem;overflow-wrap:anywhere}
header{border-bottom:1px solid var(--line);padding-bottom:1rem;margin-bottom:1.5rem}
.meta{color:var(--faint);font-size:.875rem;margin:0;overflow-wrap:anywhere}
.tag{display:inline-block;background:var(--code);border:1px solid var(--line);border-radius:1rem;padding:0 .6rem;
margin:.4rem .3rem 0 0}
.user,.model{background:var(--paper);border:1px solid var(--line);border-radius:.6rem;padding:.1rem 1rem;margin:1rem 0;
overflow-wrap:anywhere}.user{background:var(--you)}
.who{color:var(--faint);font-size:.8rem;font-weight:600;margin:.6rem 0 -.4rem}
pre{overflow-x:auto;padding:.7rem .9rem;background:var(--code);border-radius:.4rem;white-space:pre-wrap;overflow-wrap:anywhere;
font-size:.85rem;line-height:1.45}code{font-family:ui-monospace,monospace;font-size:.9em}
:not(pre)>code{background:var(--code);border-radius:.25rem;padding:.1em .3em}
details{border-left:.2rem solid var(--line);padding-left:.8rem;margin:.5rem 0 .5rem .4rem;font-size:.95rem}
summary{cursor:pointer;color:var(--faint);overflow-wrap:anywhere}.failed{border-color:var(--bad)}.failed>summary{color:var(--bad)}
a{color:var(--mark)}blockquote{border-left:.2rem solid var(--line);margin-left:0;padding-left:1rem;color:var(--faint)}
table{border-collapse:collapse;display:block;overflow-x:auto}td,th{border:1px solid var(--line);padding:.25rem .6rem}
@media print{body{background:none;padding:0}.user,.model{break-inside:avoid}}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Rules for a browser: no script runs, and nothing is loaded, whatever the text contains."""


def export(
    info: SessionInfo, records: Sequence[Mapping[str, Any]], form: Format, artifacts: Sequence[SessionArtifact] = ()
) -> str:
    """Return the document, which ends with a line feed.

    ``records`` are the store's, in order; images and artifacts are only named.
    """
    text = {"markdown": _markdown, "html": _html, "json": _json}[form](info, records, artifacts)
    return text if text.endswith("\n") else f"{text}\n"


def _json(info: SessionInfo, records: Sequence[Mapping[str, Any]], artifacts: Sequence[SessionArtifact]) -> str:
    place, via = exported_place(info.place, info.via)
    session = {**asdict(info), "place": dict(place), "via": dict(via), "host": "", "tags": list(info.tags)}
    session["why"] = "" if info.why == IMPORT else info.why
    kept = [exported_record(record) for record in records]
    named = [{"name": one.kept.name, "digest": one.kept.digest, "size": one.kept.size, "tool": one.tool} for one in artifacts]
    more = {"artifacts": named} if named else {}
    return json.dumps({"v": VERSION, "session": session, "records": kept, **more}, ensure_ascii=False, indent=2)


def write(path: Path, whole: str | bytes, *, force: bool = False) -> None:
    """Write a document, a new one readable only by its owner, and record its path, so that later searches find copies.

    Raises ToolcribError if it can't be written, or exists already and ``force`` is not set.
    """
    path = with_home(path)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (0 if force else os.O_EXCL)
        with open(os.open(path, flags, 0o600), "wb") as file:  # noqa: PTH123 - a descriptor
            if force and stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                os.fchmod(file.fileno(), 0o600)  # before it has the text: an existing file has its old mode
                file.truncate()
            file.write(whole.encode() if isinstance(whole, str) else whole)
    except FileExistsError:
        raise ToolcribError(f"{path} already exists: name another file, or use --force") from None
    except OSError as error:
        raise ToolcribError(f"{path} can't be written: {error.strerror or error}") from None
    with contextlib.suppress(OSError):  # the state folder may not be writable
        _list_of_exports().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(_list_of_exports(), flags, 0o600), "a", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
            file.write(json.dumps(os.path.abspath(path)) + "\n")  # noqa: PTH100 - links are not resolved


def exports() -> Sequence[Path]:
    """Return the recorded files of earlier exports that still exist."""
    try:
        lines = _list_of_exports().read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return []
    found: dict[Path, None] = {}
    for line in lines:
        with contextlib.suppress(ValueError, TypeError):
            found[Path(json.loads(line))] = None
    return [path for path in found if os.path.lexists(path)]


def _list_of_exports() -> Path:
    return state_dir() / "exports.jsonl"


def form_of(path: Path) -> Format:
    """Return the format for a file's name. Raises ToolcribError for an unknown ending."""
    form = SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise ToolcribError(f"{path}: the name must end with {', '.join(SUFFIXES)}; or use --format")
    return form


# -- a session's content in every format --------------------------------------------------------------------------------


def _about(info: SessionInfo, *, tagged: bool = False) -> list[str]:
    began, last = (f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}" for at in (info.created_at, info.updated_at))
    where = info.place.get("name", LOCAL)
    parts = [f"{began} to {last}", info.model or "no model", f"{'' if where == LOCAL else f'{where}: '}{info.cwd or '?'}"]
    tags = [f"tags: {', '.join(info.tags)}"] if info.tags and tagged else []
    return [*parts, f"session {info.id}", *tags]


def _parts(records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield messages, and each call with its result: ``{"name", "args", "text", "state"}``.

    A ``text`` of None is unknown; ``state`` is "failed", "denied", or "" for success.
    """
    waiting: list[Mapping[str, Any]] = []
    for record in records:
        if record["role"] == "results":
            results = {result["call_id"]: result for result in record["results"]}
            for call in waiting:
                result = results.get(call["id"], {})
                state = "denied" if result.get("denied") else "failed" if result.get("is_error") else ""
                yield "call", {**call, "text": result.get("text"), "state": state}
            waiting = []
            continue
        yield from (("call", {**call, "text": None, "state": ""}) for call in waiting)
        waiting = list(record.get("calls") or ())
        record = whole(record)
        if record.get("text") or record.get("images"):
            yield speaker(record), record
    yield from (("call", {**call, "text": None, "state": ""}) for call in waiting)


def _compressed(record: Mapping[str, Any]) -> str:
    return f"{compression_words(record)}; the model's summary"


def _listed(artifacts: Sequence[SessionArtifact]) -> Iterator[str]:
    """Yield a line for each large result in the store."""
    for one in artifacts:
        yield f"{one.kept.name}, {one.kept.size:,} bytes{f' of {one.tool}' if one.tool else ''}"


def _images(record: Mapping[str, Any]) -> list[str]:
    return [f"[image: {one.get('media_type', 'unknown')}]" for one in record.get("images") or ()]


def _arguments(call: Mapping[str, Any]) -> str:
    args = call["args"]
    if isinstance(args, Mapping) and list(args) == ["command"]:
        return str(args["command"])
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, indent=2)


def _in_short(call: Mapping[str, Any]) -> str:
    """Return a short form of a call's arguments. A single text argument is shown without its name."""
    args = call["args"]
    if not isinstance(args, Mapping):
        words = str(args)
    elif len(args) == 1 and isinstance(only := next(iter(args.values())), str):
        words = only
    else:
        words = " ".join(f"{name}={value}" for name, value in args.items())
    return " ".join(words[:400].split())[:100]


def _result(call: Mapping[str, Any]) -> str:
    """Return a readable result: the output of a command, otherwise the text that the model got."""
    text = call["text"]
    if text is None:
        return "(no result was recorded)"
    try:
        data = json.loads(text)
    except ValueError:
        return str(text)
    if not isinstance(data, dict) or "output" not in data:
        return json.dumps(data, ensure_ascii=False, indent=2) if isinstance(data, dict | list) else str(data)
    code = data.get("exit_code")
    printed = [str(data["output"]).rstrip("\n"), str(data.get("stderr", "")).rstrip("\n")]
    return "\n".join([*filter(None, printed), *([f"(exit code {code})"] if code else [])]) or "(no output)"


# -- Markdown --------------------------------------------------------------------------------------------------------------


def _markdown(info: SessionInfo, records: Sequence[Mapping[str, Any]], artifacts: Sequence[SessionArtifact]) -> str:
    blocks = [f"# {_escaped(info.title or 'A session')}", "  \n".join(map(_escaped, _about(info, tagged=True)))]
    for kind, part in _parts(records):
        if kind == "call":
            sign = f" ({part['state']})" if part["state"] else ""
            blocks += [f"**{_escaped(str(part['name']))}**{sign}", _fenced(_arguments(part)), _fenced(_result(part))]
        else:
            said = str(part["text"]).strip("\n")
            title = _TITLES.get(kind) or (_compressed(part) if kind == COMPRESSED else kind)
            blocks += [f"## {title}", *([said] if said else []), *_images(part)]
    if artifacts:
        blocks += ["## Artifacts", "\n".join(f"- {_escaped(line)}" for line in _listed(artifacts))]
    return "\n\n".join(blocks) + "\n"


def _escaped(text: str) -> str:
    line = " ".join(text.split())
    return "".join(f"\\{char}" if char in "\\`*_[]<>#|" else char for char in line)


def _fenced(text: str) -> str:
    """Return text in a code fence that is longer than any fence in the text."""
    ticks = "`" * max([3, *(len(run) + 1 for run in _TICKS.findall(text))])
    return f"{ticks}\n{text.rstrip()}\n{ticks}"


# -- HTML ------------------------------------------------------------------------------------------------------------------


def _html(info: SessionInfo, records: Sequence[Mapping[str, Any]], artifacts: Sequence[SessionArtifact]) -> str:
    """Return one file without scripts, whose only links are those in messages. HTML in messages is shown as text."""
    render = _renderer()
    title = html.escape(info.title or "A session")
    tags = "".join(f'<span class="tag">{html.escape(tag)}</span>' for tag in info.tags)
    meta = "<br>".join(map(html.escape, _about(info)))
    body = [f'<header><h1>{title}</h1><p class="meta">{meta}<br>{tags}</p></header>']
    for kind, part in _parts(records):
        if kind == "call":
            name, state = html.escape(str(part["name"])), " class=failed" if part["state"] else ""
            name += f" ({part['state']})" if part["state"] else ""
            first = html.escape(_in_short(part))
            body.append(
                f"<details{state}><summary>{name} <code>{first}</code></summary>"
                f"<pre>{html.escape(_arguments(part))}</pre><pre>{html.escape(_result(part))}</pre></details>"
            )
        else:
            said = render(str(part["text"])) + "".join(f"<p>{html.escape(image)}</p>" for image in _images(part))
            if kind == COMPRESSED:
                said = f"<details><summary>{html.escape(_compressed(part))}</summary>{said}</details>"
            who = html.escape(_TITLES.get(kind, kind))
            body.append(f'<div class="{"user" if kind == "user" else "model"}"><p class="who">{who}</p>{said}</div>')
    if artifacts:
        items = "".join(f"<li>{html.escape(line)}</li>" for line in _listed(artifacts))
        body.append(f"<h2>Artifacts</h2><ul>{items}</ul>")
    head = (
        '<!doctype html>\n<html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><meta name="referrer" content="no-referrer">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body><main>\n"
    )
    return head + "\n".join(body) + "\n</main></body></html>\n"


def _renderer() -> Callable[[str], str]:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image").render
