"""Skeletons of texts: letters that a reader takes for Latin ones as these, without accents, styles, marks and entities."""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections.abc import Iterator

from agent.memory.unseen import script_of, without_unseen
from toolcrib.contract.regex import Regex

_LOOKS = {
    "АВЕЅІЈКМНОРСТХУҮԚԜӀԌ": "ABESIJKMHOPCTXYYQWIG",
    "авеѕіјкмнорстхуүԛԝӏԁһгпиьѵғѡҽԍ": "abesijkmhopctxyyqwldhrnubvfweg",
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϜͿ": "ABEZHIKMNOPTYXCFJ",  # noqa: RUF001 - that is what they are here for
    "αβγεζηικμνορςστυχωϲϳϝ": "abyeznikuvopsotuxwcjf",
    "աօոսհցզյլռւՏՍՕԼտ": "wonuhgqjlniSUOLs",
    "ᎠᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᎽᏀᏃᏒᏔᏕᏙᏚᏞᏟᏢᏦᏧᏀᏴᎯᎰᏂᏋ": "DRTIYAJEWMHYGZRWSVSLCPKDGBHTHE",
    "ꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ": "BPDTGKJCZFMNLSRVHWXYAEIOU",  # noqa: RUF001 - that is what they are here for
    "ⲁⲃⲅⲉⲏⲓⲕⲙⲛⲟⲣⲥⲧⲩⲭ": "abreeikmnopctyx",
    "ⲀⲂⲈⲎⲒⲔⲘⲚⲞⲢⲤⲦⲨⲬ": "ABEHIKMNOPCTYX",
    "ɑɩʋƨɢ\u01c0\u2223ןߊ〇": "aivsgllllo",  # noqa: RUF001 - that is what they are here for
}
_TABLE = {ord(one): other for foreign, latin in _LOOKS.items() for one, other in zip(foreign, latin, strict=True)}
_TABLE |= {0x1F150 + n: chr(65 + n) for n in range(26)} | {0x1F170 + n: chr(65 + n) for n in range(26)}
_TABLE |= {0x1F1E6 + n: chr(65 + n) for n in range(26)}
_LATIN_NAME = Regex(
    r"LATIN (?:(?:SMALL|CAPITAL) LETTER |LETTER )(?:SMALL CAPITAL |SCRIPT |DOTLESS |OPEN |REVERSED |INSULAR |BLACKLETTER )*"
    r"(?P<letter>[A-Z])(?: WITH .+)?\Z"
)
_ASCII = Regex(r"[\x00-\x7f]+\Z")
_DASHES = Regex(r"[_\u2010-\u2015\u2212\xb7./|,+~=-]+")
_TAGS = Regex(r"<!--.{0,500}?-->|</?[a-z][^<>]{0,200}>")
_LINK = Regex(r"\]\([^()\n]{0,500}\)|\[\[|\]\]|[\[\]]")
_MARKS = Regex(r"[*`~\\#\"\u201c\u201d]+")
_WITHIN = Regex(r"(?<=\w)[_-]+(?=\w)")
_WORD = Regex(r"[^\W\d_]+")
_SPACED = Regex(r"\b\w(?:[ ._-]\w\b){4,}")
_KNOWN = 8_192
_BESIDE_LATIN = frozenset(
    {
        *("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC"),
        *("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"),
    }
)
"""Scripts that are written without blanks around Latin words."""
_SUFFIXED = frozenset(
    {
        *("ARABIC", "HEBREW", "ETHIOPIC", "DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU"),
        *("KANNADA", "MALAYALAM", "SINHALA"),
    }
)
"""Scripts whose prefixes and endings stand on Latin words."""
_SIGNS = frozenset("ΓΔΘΛΞΠΣΦΨΩβδεθλμπφψω")
"""Greek letters of units and formulas, which nobody takes for Latin ones."""
_NEUTRAL = frozenset(
    {"MICRO", "FEMININE", "MASCULINE", "MODIFIER", "OHM", "ANGSTROM", "KELVIN", "DEGREE", "SCRIPT", "DOUBLE-STRUCK"}
)
"""Beginnings of the names of letters that belong to no script: units, raised letters, signs of mathematics."""
_LATIN = frozenset({"LATIN", "FULLWIDTH", "MATHEMATICAL"})
_FORMULA = 3


def disguised(text: str) -> str:
    """Return the first word that mixes Latin letters with those of another script, with these written out; "" without one."""
    if text.isascii():
        return ""
    for one in _WORD.finditer(unicodedata.normalize("NFC", text)):
        if not one[0].isascii() and _is_mixed(one[0]):
            return "".join(char if script_of(char) == "LATIN" else f"\\u{ord(char):04x}" for char in one[0])
    return ""


def forms(text: str) -> Iterator[str]:
    """Yield what the text says to whoever reads over marks and styles, in lower case and with its line breaks, in several ways:
    as it is, without marks of Markdown and tags, and with or without blanks where words are tied together by signs.
    """
    plain = _skeleton(text)
    seen = {plain}
    yield plain
    bare = _MARKS.sub("", _LINK.sub(" ", plain))
    untagged = _MARKS.sub("", _LINK.sub(" ", _TAGS.sub("", plain)))
    whole = _MARKS.sub("", _LINK.sub("", _TAGS.sub("", plain)))
    for form in (
        bare,
        untagged,
        whole,
        _DASHES.sub(" ", bare),
        _DASHES.sub(" ", untagged),
        _WITHIN.sub("", whole),
        _joined(whole),
    ):
        if form not in seen:
            seen.add(form)
            yield form


def _skeleton(text: str) -> str:
    if "&" in text:
        import html

        for _ in range(3):
            text = html.unescape(text)
    text = without_unseen(text)
    if _ASCII.match(text):
        return text.casefold()
    plain = "".join(_looks(char) for char in unicodedata.normalize("NFKC", text))
    return plain.casefold().translate(_TABLE).casefold().replace("\u2019", "'").replace("\u2018", "'").replace("\u2581", "_")


def _joined(text: str) -> str:
    """Return the text with words put together whose letters stand apart."""
    return _SPACED.sub(lambda found: "".join(char for char in found[0] if char.isalnum()), text)


@functools.lru_cache(_KNOWN)
def _looks(char: str) -> str:
    """Return what a character looks like: a Latin letter where it does, else itself without accents."""
    if char.isascii():
        return char
    kept = "".join(one for one in unicodedata.normalize("NFKD", char.translate(_TABLE)) if unicodedata.category(one)[0] != "M")
    shown = kept.translate(_TABLE)
    if len(shown) == 1 and not shown.isascii():
        match = _LATIN_NAME.match(unicodedata.name(shown, ""))
        if match is not None:
            return match["letter"].lower()
    return shown


def _is_mixed(word: str) -> bool:
    scripts = [script_of(char) for char in word if unicodedata.category(char)[0] == "L"]
    scripts = ["LATIN" if script in _LATIN else script for script in scripts if script not in _NEUTRAL]
    foreign = {*scripts} - {"LATIN"} - _BESIDE_LATIN
    if "LATIN" not in scripts or not foreign:
        return False
    if foreign <= _SUFFIXED:
        return sum(one != other for one, other in itertools.pairwise(scripts)) > 1
    if foreign == {"GREEK"}:
        return len(word) > _FORMULA and any(script_of(char) == "GREEK" and char not in _SIGNS for char in word)
    return True
