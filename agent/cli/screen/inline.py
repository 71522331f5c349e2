"""Markdown within a paragraph: emphasis, code, links. Text before the first open mark never changes again."""

from __future__ import annotations

from collections.abc import Iterator

from agent.cli.screen.cells import Piece
from toolcrib.contract.regex import Regex

LONGEST = 2_000
"""Maximum number of characters between a mark and its closing mark; at a greater distance the first mark is plain text."""
_SPECIAL = Regex(r"[\\`*_~\[\]!<&\n]")
_ENTITY = Regex(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_ENTITY_BEGUN = Regex(r"&[#\w]{0,33}\Z")
_TARGET = Regex(r"\(\s*(?:<([^<>\n]*)>|([^\s()<]*(?:\([^\s()]*\)[^\s()]*)*))(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)")
_AUTOLINK = Regex(r"<([A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*|[^\s<>@]+@[^\s<>@]+)>")
_AUTOLINK_BEGUN = Regex(r"<[^\s<>]*\Z")
_ESCAPABLE = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_MARKS = {"*": ("em", "strong"), "_": ("em", "strong"), "~": ("strike", "strike")}


class _Opener:
    """A mark that may open an element. ``left`` counts its unused characters."""

    __slots__ = ("char", "left", "piece", "place")

    def __init__(self, char: str, place: int, piece: int, left: int) -> None:
        self.char = char
        self.place = place
        self.piece = piece
        self.left = left


def parse(text: str, style: str = "") -> tuple[list[Piece], int]:
    """Return the styled pieces of a paragraph's text, and the index before which later text changes nothing."""
    inline = _Inline(text, style)
    return list(inline.pieces()), inline.safe


class _Inline:
    def __init__(self, text: str, style: str) -> None:
        self._text = text
        self._base = style
        self._pieces: list[list[object]] = []
        self._styles: list[list[str]] = []
        self._openers: list[_Opener] = []
        self._closed: list[tuple[int, int]] = []
        """Places of the mark that opens an element, and of the mark that closes it."""
        self.safe = len(text)
        self._scan()
        for opener in self._openers:
            if len(text) - opener.place <= LONGEST:
                self._open(opener.place)
        for begin, end in sorted(self._closed, reverse=True):
            if end >= self.safe:  # later text may turn the closing mark into code, so that the element stays open
                self._open(begin)

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces that are not empty."""
        for (text, source), styles in zip(self._pieces, self._styles, strict=True):
            if text:
                named = "+".join([*([self._base] if self._base else []), *dict.fromkeys(styles)])
                yield str(text), named, int(str(source))

    def _open(self, place: int) -> None:
        self.safe = min(self.safe, place)

    def _put(self, text: str, source: int, *styles: str) -> None:
        self._pieces.append([text, source])
        self._styles.append([*styles])

    def _scan(self) -> None:
        text, place = self._text, 0
        while (found := _SPECIAL.search(text, place)) is not None:
            at = found.start()
            if at > place:
                self._put(text[place:at], place)
            place = self._take(text[at], at)
        if place < len(text):
            self._put(text[place:], place)

    def _take(self, char: str, at: int) -> int:
        """Read the element that begins with a special character. Return the index after it."""
        if char in _MARKS:
            return self._run(char, at)
        match char:
            case "\\":
                return self._escape(at)
            case "`":
                return self._code(at)
            case "[":
                self._openers.append(_Opener("[", at, len(self._pieces), 1))
                self._put("[", at)
                return at + 1
            case "]":
                return self._link(at)
            case "<":
                return self._autolink(at)
            case "&":
                return self._entity(at)
            case "\n":
                hard = self._text.endswith("  ", 0, at)
                self._put("\n" if hard else " ", at)
                return at + 1
        if at + 1 == len(self._text):  # "!" may begin an image
            self._open(at)
        self._put(char, at)
        return at + 1

    def _escape(self, at: int) -> int:
        following = self._text[at + 1 : at + 2]
        if not following:
            self._open(at)
        if following in _ESCAPABLE and following:
            self._put(following, at + 1)
            return at + 2
        if following == "\n":
            self._put("\n", at + 1)
            return at + 2
        self._put("\\", at)
        return at + 1

    def _code(self, at: int) -> int:
        text = self._text
        length = _run_length(text, at)
        inside = at + length
        end = inside
        while (end := text.find("`", end)) >= 0 and end - at <= LONGEST:
            closing = _run_length(text, end)
            if end + closing == len(text):
                self._open(at)  # more backticks may follow
            if closing == length:
                code, begin = text[inside:end].replace("\n", " "), inside
                if code.startswith(" ") and code.endswith(" ") and code.strip():
                    code, begin = code[1:-1], inside + 1
                self._put(code, begin, "code")
                return end + closing
            end += closing
        if len(text) - at <= LONGEST:
            self._open(at)
        self._put(text[at:inside], at)
        return inside

    def _run(self, char: str, at: int) -> int:
        text = self._text
        length = _run_length(text, at)
        end = at + length
        before = text[at - 1] if at else " "
        after = text[end] if end < len(text) else " "
        if end == len(text):
            self._open(min([at, *(one.place for one in self._openers if one.char == char and at - one.place <= LONGEST)]))
        opens, closes = not after.isspace(), not before.isspace()
        if char == "_":
            opens, closes = opens and not before.isalnum(), closes and (not after.isalnum() or end == len(text))
        if char == "~" and length != 2:
            opens = closes = False
        left = self._close(char, length, at) if closes else length
        if left and opens:
            self._openers.append(_Opener(char, at, len(self._pieces), left))
        self._put(char * left, end - left)
        return end

    def _close(self, char: str, left: int, at: int) -> int:
        """Match a run of marks with the openers before it, nearest first. Return the number of unmatched characters."""
        place = len(self._openers) - 1
        while left and place >= 0:
            opener = self._openers[place]
            if at - opener.place > LONGEST:
                break
            if opener.char != char:
                place -= 1
                continue
            self._closed.append((opener.place, at))
            used = 2 if char == "~" or min(left, opener.left) >= 2 else 1
            for styles in self._styles[opener.piece + 1 :]:
                styles.insert(0, _MARKS[char][used - 1])
            left, opener.left = left - used, opener.left - used
            self._pieces[opener.piece][0] = char * opener.left
            del self._openers[place + 1 :]
            if not opener.left:
                del self._openers[place]
                place -= 1
        return left

    def _link(self, at: int) -> int:
        text = self._text
        place = next((n for n in range(len(self._openers) - 1, -1, -1) if self._openers[n].char == "["), -1)
        if place < 0 or at - self._openers[place].place > LONGEST:
            self._put("]", at)
            return at + 1
        opener = self._openers[place]
        target = _TARGET.match(text, at + 1, at + LONGEST)
        if at + 1 == len(text) or (target is None and text[at + 1] == "(" and _may_go_on(text, at + 1)):
            self._open(opener.place)
        if target is None:
            del self._openers[place]
            self._put("]", at)
            return at + 1
        del self._openers[place:]
        self._closed.append((opener.place, at))
        url = target[1] if target[1] is not None else target[2]
        shown = "".join(str(piece[0]) for piece in self._pieces[opener.piece + 1 :])
        for styles in self._styles[opener.piece + 1 :]:
            styles.append("link")
        self._pieces[opener.piece][0] = ""
        self._picture(opener)
        if url and url != shown:
            self._put(" (", at)
            self._put(url, at + 2, "url")
            self._put(")", at + 2 + len(url))
        return target.end()

    def _picture(self, opener: _Opener) -> None:
        if opener.piece and self._pieces[opener.piece - 1][0] == "!" and self._pieces[opener.piece - 1][1] == opener.place - 1:
            self._pieces[opener.piece - 1][0] = "🖼 "

    def _autolink(self, at: int) -> int:
        found = _AUTOLINK.match(self._text, at, at + LONGEST)
        if found is not None:
            self._put(found[1], at + 1, "url")
            return found.end()
        if len(self._text) - at <= LONGEST and _AUTOLINK_BEGUN.match(self._text, at):
            self._open(at)
        self._put("<", at)
        return at + 1

    def _entity(self, at: int) -> int:
        found = _ENTITY.match(self._text, at)
        if found is not None:
            import html

            from agent.cli.escape import tame

            char = tame(html.unescape(found[0])).replace("\n", " ").replace("\t", " ")
            self._put(char, at)
            return found.end()
        if _ENTITY_BEGUN.match(self._text, at):
            self._open(at)
        self._put("&", at)
        return at + 1


def _run_length(text: str, at: int) -> int:
    end = at
    while end < len(text) and text[end] == text[at]:
        end += 1
    return end - at


def _may_go_on(text: str, at: int) -> bool:
    """Return True if later text may complete the target of a link, which begins at ``at``."""
    return len(text) - at <= LONGEST and "\n\n" not in text[at:]
