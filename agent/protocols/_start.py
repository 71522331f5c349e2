"""Beginnings of a reply other than text and tags: JSON or Python calls, a code block with calls, a tool's bare name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from agent.protocols import _bare
from agent.protocols._bodies import read_code
from agent.protocols._code import FENCED
from agent.protocols._fences import ProtocolFence
from agent.protocols._made import Definitions
from agent.protocols._python import BEGINS
from agent.protocols._scan import Tokens
from toolcrib.contract.session import TextReader
from toolcrib.contract.types import ToolCall

CODE_END = "\n```"
_INFO_LIMIT = 40
_PYTHON_INFO = ("tool_code", "tool_call", "tool_calls")
_CHANNELS = ("analysis", "commentary", "final", "assistant")
_CHANNEL = re.compile(rf"(?:{'|'.join(_CHANNELS)})(?=<\||\s+to=|\s+<\|)")
_CHANNEL_YET = re.compile(r"\s*(?:<|to?)?")
_RECIPIENT = re.compile(r"(?:>>>)?[ \t]*([A-Za-z_][\w.-]*)[ \t]*\r?\n\s*(?=\{)")
_RECIPIENT_YET = re.compile(r">{0,3}[ \t]*([\w.-]*)[ \t]*\r?(?:\n\s*)?")

INVOKE = "<|content_invoke_tool_json|>"
"""Inkling's mark after the tool's name: a server may remove the mark before the name."""
_INVOKED, _INVOKED_YET = re.compile(rf"([A-Za-z_][\w.-]*)(?={re.escape(INVOKE)})"), re.compile(r"([A-Za-z_][\w.-]*)(?=<)")
_TO_ALL = re.compile(r">>>[ \t]*all[ \t]*\r?\n")

Found = ProtocolFence | Literal["wait", "header", "protocol", "text"] | None


@dataclass(frozen=True, slots=True)
class Pending:
    """Text that is a call unless other text follows: ``raw`` is the text in the reply, ``body`` its content."""

    fence: ProtocolFence
    body: str
    raw: str
    closed: bool

    def calls(self, known: Definitions, reader: Callable[[], TextReader]) -> list[ToolCall]:
        """Return the calls; none if the text is anything else."""
        if self.fence.closers == (CODE_END,):
            return nested_calls(self.fence.opener, self.body, reader, known)
        return self.fence.read(self.body, known)


def nested_calls(opener: str, code: str, reader: Callable[[], TextReader], known: Definitions | None = None) -> list[ToolCall]:
    """Return the calls of a code block; none if it contains anything else, or an unknown tool."""
    text = code.strip()
    if _info(opener) in _PYTHON_INFO and BEGINS.match(text) and not text.startswith("["):
        calls = read_code(text, known or Definitions())
    else:
        inner = reader()
        inner.feed(text)
        reply = inner.finish()
        calls = [] if reply.content else list(reply.calls)
    return [] if known and any(call.name not in known for call in calls) else calls


def trailing_code(content: str) -> tuple[str, str, bool] | None:
    """Return the first line, the code, and whether it is closed, of a code block at the end of a text; None without one."""
    text = content.rstrip()
    if "```" not in text and "~~~" not in text:
        return None
    last = None
    for match in FENCED.finditer(text):
        last = match
    if last is None or last.end() != len(text):
        return None
    opener, code = last[0].partition("\n")[0], last["code"]
    return opener + "\n", code, last.end("code") < last.end()


def _may_be_channel(lead: str) -> bool:
    return any(
        name.startswith(lead) or (lead.startswith(name) and len(lead) < _INFO_LIMIT and _CHANNEL_YET.fullmatch(lead, len(name)))
        for name in _CHANNELS
    )


def _info(opener: str) -> str:
    return opener.strip().strip("`~").strip().lower()


class Beginning:
    """Recognises the beginning of a reply. ``skipped``: how many characters to skip before the content that was found last."""

    def __init__(
        self,
        known: Definitions,
        tokens: Tokens,
        fences: Mapping[str, ProtocolFence],
        *,
        bare: bool,
        protocol: bool,
        nested: bool,
    ) -> None:
        self.known, self._tokens, self._fences = known, tokens, fences
        self._protocol, self._nested = protocol, nested
        self.bare = bare
        self.skipped = 0

    def recognize(self, lead: str, *, called: bool, final: bool) -> Found:
        """Return a fence, or the kind of text that ``lead`` begins. None: text or a tag."""
        if not self._nested:
            if lead.startswith("to=") or _CHANNEL.match(lead):
                return "header"
            if not final and lead and ("to=".startswith(lead) or _may_be_channel(lead)):
                return "wait"
            if not called and (lead.startswith("```") or (lead and not final and "```".startswith(lead))):
                return self._code(lead, final=final)
        return self._untagged(lead, called=called, final=final) if self.bare else None

    def look_on(self, lead: str, before: Pending, *, final: bool) -> Found:
        """Return what follows a pending call, if that may be a call too. None: other text."""
        if before.fence.closers == (CODE_END,):
            return self._code(lead, final=final) if lead.startswith("```") else self._wait_for("```", lead, final=final)
        return self._named(lead, final=final)

    def part(self, lead: str, *, final: bool) -> Found:
        """Return the kind of a part of functionary's reply: a call, or text. None: the mark was ordinary text."""
        return self._named(lead, final=final)

    def _wait_for(self, mark: str, lead: str, *, final: bool) -> Found:
        return "wait" if not final and mark.startswith(lead) else None

    def begins_call(self, opener: str, code: str) -> bool:
        """Return whether the code of a block begins like a call."""
        start = code.lstrip()[: _bare.DECIDES]
        if not start:
            return False
        if match := self._tokens.pattern.match(start):
            return match[0] in self._fences
        if start[0] in "{[":
            return _bare.kind_of(start) == "calls"
        return _info(opener) in _PYTHON_INFO and BEGINS.match(start) is not None

    def _code(self, lead: str, *, final: bool) -> Found:
        line, newline, code = lead.partition("\n")
        if len(line) > _INFO_LIMIT or line + newline in self._fences:
            return None
        if not newline:
            return None if final else "wait"
        start = code.lstrip()
        if len(start) < _bare.DECIDES and not final and "```" not in start:
            return "wait"
        if "`" in line.lstrip("`") or not self.begins_call(line, start):
            return None
        self.skipped = len(line)
        return ProtocolFence(line, (CODE_END,), scan="tags")

    def _untagged(self, lead: str, *, called: bool, final: bool) -> Found:
        start = lead.lstrip(" \t\r\n,;") if called else lead
        if len(lead) - len(start) > _bare.DECIDES:
            self.bare = False
            return None
        if not start:
            return None if final else "wait"
        self.skipped = len(lead) - len(start)
        if start[0] not in "{[":
            if (named := self._named(start, final=final) if not called else None) is not None:
                return named
            if self._tokens.held(start) != len(start) and not self._tokens.pattern.match(start):
                self.bare = False
            return None
        if len(start) < _bare.DECIDES and not final:
            return "wait"
        kind = _bare.kind_of(start[: _bare.DECIDES])
        if kind == "protocol" and self._protocol and not called:
            return "protocol"
        if kind != "calls":
            self.bare = self._tokens.pattern.match(start) is not None
            return None
        return ProtocolFence("", scan="value")

    def _named(self, lead: str, *, final: bool) -> Found:
        """Return a fence for functionary's format: a tool's name on a line, then its arguments; "text" for ``all``, then text.

        A tool's name before Inkling's mark is skipped and also gives "text".
        """
        if match := _TO_ALL.match(lead):
            self.skipped = match.end()
            return "text"
        if (invoked := _INVOKED.match(lead)) and invoked[1] in self.known:
            self.skipped = invoked.end()
            return "text"
        if match := _RECIPIENT.match(lead):
            if match[1] not in self.known:
                return None
            self.skipped = match.end()
            return ProtocolFence(match[0], scan="value", read=_bare.arguments_of(match[1]))
        if (
            not final
            and (invoked := _INVOKED_YET.match(lead))
            and invoked[1] in self.known
            and INVOKE.startswith(lead[invoked.end() :])
        ):
            return "wait"
        if final or not (match := _RECIPIENT_YET.fullmatch(lead)) or len(lead) > 2 * _bare.DECIDES:
            return None
        name, ended = match[1], match.end(1) < len(lead)
        names = (*self.known.names, "all") if lead[0] == ">" else self.known.names
        fits = name in names if ended else any(one.startswith(name) for one in names)
        return "wait" if fits else None
