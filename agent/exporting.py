"""A stored session as a document: Markdown to read and share, HTML in one file, JSON for programs."""

from __future__ import annotations

import contextlib
import html
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

from agent.config import state_dir
from agent.conversation.compressed import ROLE as COMPRESSED
from agent.conversation.compressed import compression_words
from agent.providers._history import whole
from toolcrib import ToolcribError
from toolcrib._regex import Regex
from toolcrib._store import SessionInfo

Format: TypeAlias = Literal["markdown", "html", "json"]
SUFFIXES: Mapping[str, Format] = {".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html", ".json": "json"}
VERSION = 1
"""Version of the JSON; within one, keys are only added."""

_TITLES = {"user": "You", "assistant": "The model"}
_TICKS = Regex(r"`{3,}")
_STYLE = """\
:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}
pre{overflow-x:auto;padding:.6rem;background:#8882;border-radius:.4rem;white-space:pre-wrap;overflow-wrap:anywhere}
.user{border-left:.25rem solid #48c;padding-left:.8rem;margin:1.5rem 0}.meta{color:#888}details{margin:.5rem 0}
summary{cursor:pointer}.failed summary{color:#c33}table{border-collapse:collapse}td,th{border:1px solid #8886;padding:.2rem .5rem}
"""


def export(info: SessionInfo, records: Sequence[Mapping[str, Any]], form: Format) -> str:
    """Return the document, which ends with a line feed. ``records`` are the store's, in order; images are named, not shown."""
    text = {"markdown": _markdown, "html": _html, "json": _json}[form](info, records)
    return text if text.endswith("\n") else f"{text}\n"


def _json(info: SessionInfo, records: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"v": VERSION, "session": asdict(info), "records": list(records)}, ensure_ascii=False, indent=2)


def write(path: Path, text: str, *, force: bool = False) -> None:
    """Write a document for its owner alone, and note that it is there, for who looks for copies of something.

    Raises ToolcribError where it can't be, or is there already, unless ``force``.
    """
    path = path.expanduser()
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if force else os.O_EXCL)
        with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
            file.write(text)
    except FileExistsError:
        raise ToolcribError(f"{path} is there already: name another file, or say --force") from None
    except OSError as error:
        raise ToolcribError(f"{path} can't be written: {error.strerror or error}") from None
    with contextlib.suppress(OSError):  # as where there is no state
        _list_of_exports().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(_list_of_exports(), flags, 0o600), "a", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
            file.write(json.dumps(os.path.abspath(path)) + "\n")  # noqa: PTH100 - a link stays one


def exports() -> Sequence[Path]:
    """Return the files that something was exported into and that are still there, as far as it was noted."""
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
    """Return the form that a file's name asks for. Raises ToolcribError for another ending."""
    form = SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise ToolcribError(f"{path}: the name ends with {', '.join(SUFFIXES)}; or say --format")
    return form


# -- what is told of a session, whatever the form ------------------------------------------------------------------------


def _about(info: SessionInfo) -> list[str]:
    began, last = (f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}" for at in (info.created_at, info.updated_at))
    where = info.place.get("name", "local")
    parts = [f"{began} to {last}", info.model or "no model", f"{'' if where == 'local' else f'{where}: '}{info.cwd or '?'}"]
    return [*parts, f"session {info.id}"]


def _parts(records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield what was said, and each call with its result: ``{"name", "args", "text", "state"}``.

    ``text`` None is unknown; ``state`` is "failed", "denied", or "" for one that went well.
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
            yield str(record["role"]), record
    yield from (("call", {**call, "text": None, "state": ""}) for call in waiting)


def _compressed(record: Mapping[str, Any]) -> str:
    return f"{compression_words(record)}; the model's summary"


def _images(record: Mapping[str, Any]) -> list[str]:
    return [f"[image: {one.get('media_type', 'unknown')}]" for one in record.get("images") or ()]


def _arguments(call: Mapping[str, Any]) -> str:
    args = call["args"]
    if isinstance(args, Mapping) and list(args) == ["command"]:
        return str(args["command"])
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, indent=2)


def _result(call: Mapping[str, Any]) -> str:
    """Return a result to read: of a command what it printed, else the text that the model got."""
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
    return "\n".join([*filter(None, printed), *([f"(exit code {code})"] if code else [])]) or "(nothing was printed)"


# -- Markdown --------------------------------------------------------------------------------------------------------------


def _markdown(info: SessionInfo, records: Sequence[Mapping[str, Any]]) -> str:
    blocks = [f"# {_escaped(info.title or 'A session')}", "  \n".join(map(_escaped, _about(info)))]
    for kind, part in _parts(records):
        if kind == "call":
            sign = f" ({part['state']})" if part["state"] else ""
            blocks += [f"**{_escaped(str(part['name']))}**{sign}", _fenced(_arguments(part)), _fenced(_result(part))]
        else:
            said = str(part["text"]).strip("\n")
            title = _TITLES.get(kind) or (_compressed(part) if kind == COMPRESSED else kind)
            blocks += [f"## {title}", *([said] if said else []), *_images(part)]
    return "\n\n".join(blocks) + "\n"


def _escaped(text: str) -> str:
    line = " ".join(text.split())
    return "".join(f"\\{char}" if char in "\\`*_[]<>#|" else char for char in line)


def _fenced(text: str) -> str:
    """Put text into a fence that nothing in it closes."""
    ticks = "`" * max([3, *(len(run) + 1 for run in _TICKS.findall(text))])
    return f"{ticks}\n{text.rstrip()}\n{ticks}"


# -- HTML ------------------------------------------------------------------------------------------------------------------


def _html(info: SessionInfo, records: Sequence[Mapping[str, Any]]) -> str:
    """Write one file without scripts, and without links but those that were written; HTML in what was said stays text."""
    render = _renderer()
    title = html.escape(info.title or "A session")
    body = [f"<h1>{title}</h1>", f'<p class="meta">{"<br>".join(map(html.escape, _about(info)))}</p>']
    for kind, part in _parts(records):
        if kind == "call":
            name, state = html.escape(str(part["name"])), " class=failed" if part["state"] else ""
            name += f" ({part['state']})" if part["state"] else ""
            first = html.escape(_arguments(part).splitlines()[0][:100]) if _arguments(part) else ""
            body.append(
                f"<details{state}><summary>{name} <code>{first}</code></summary>"
                f"<pre>{html.escape(_arguments(part))}</pre><pre>{html.escape(_result(part))}</pre></details>"
            )
        else:
            said = render(str(part["text"])) + "".join(f"<p>{html.escape(image)}</p>" for image in _images(part))
            if kind == COMPRESSED:
                said = f"<details><summary>{html.escape(_compressed(part))}</summary>{said}</details>"
            body.append(f'<div class="{"user" if kind == "user" else "model"}">{said}</div>')
    head = f'<!doctype html>\n<html><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head>\n<body>\n'
    return head + "\n".join(body) + "\n</body></html>\n"


def _renderer() -> Callable[[str], str]:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image").render
