"""Skeletons of texts: lookalike letters become Latin ones, entities are decoded, and accents, styles and markup removed."""

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
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϜͿ": "ABEZHIKMNOPTYXCFJ",  # noqa: RUF001 - lookalikes are the point of this table
    "αβγεζηικμνορςστυχωϲϳϝ": "abyeznikuvopsotuxwcjf",
    "աօոսհցզյլռւՏՍՕԼտ": "wonuhgqjlniSUOLs",
    "ᎠᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᎽᏀᏃᏒᏔᏕᏙᏚᏞᏟᏢᏦᏧᏀᏴᎯᎰᏂᏋ": "DRTIYAJEWMHYGZRWSVSLCPKDGBHTHE",
    "ꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ": "BPDTGKJCZFMNLSRVHWXYAEIOU",  # noqa: RUF001 - lookalikes are the point of this table
    "ⲁⲃⲅⲉⲏⲓⲕⲙⲛⲟⲣⲥⲧⲩⲭ": "abreeikmnopctyx",
    "ⲀⲂⲈⲎⲒⲔⲘⲚⲞⲢⲤⲦⲨⲬ": "ABEHIKMNOPCTYX",
    "ɑɩʋƨɢ\u01c0\u2223ןߊ〇": "aivsgllllo",  # noqa: RUF001 - lookalikes are the point of this table
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
"""Scripts whose prefixes and endings attach to Latin words."""
_SIGNS = frozenset("ΓΔΘΛΞΠΣΦΨΩβδεθλμπφψω")
"""Greek letters of units and formulas, which do not look like Latin ones."""
_NEUTRAL = frozenset(
    {"MICRO", "FEMININE", "MASCULINE", "MODIFIER", "OHM", "ANGSTROM", "KELVIN", "DEGREE", "SCRIPT", "DOUBLE-STRUCK"}
)
"""Beginnings of the names of letters without a script: units, superscript letters, mathematical signs."""
_LATIN = frozenset({"LATIN", "FULLWIDTH", "MATHEMATICAL"})
_FORMULA = 3


def disguised(text: str) -> str:
    """Return the first word that mixes Latin letters with another script, with the other letters escaped; "" if there is none."""
    if text.isascii():
        return ""
    for one in _WORD.finditer(unicodedata.normalize("NFC", text)):
        if not one[0].isascii() and _is_mixed(one[0]):
            return "".join(char if script_of(char) == "LATIN" else f"\\u{ord(char):04x}" for char in one[0])
    return ""


def forms(text: str) -> Iterator[str]:
    """Yield what a reader sees in the text, in lower case and with its line breaks, in several forms.

    The forms are without styles, without Markdown and tags, and with words joined or separated at dashes and similar signs.
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
    """Return the text with spaced-out words joined."""
    return _SPACED.sub(lambda found: "".join(char for char in found[0] if char.isalnum()), text)


@functools.lru_cache(_KNOWN)
def _looks(char: str) -> str:
    """Return what a character looks like: a Latin letter if it resembles one, else the character without accents."""
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
