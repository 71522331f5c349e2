"""Decoders of constants, none of which may grow: what doesn't decode, or decodes to too much, is None."""

from __future__ import annotations

import base64
import binascii
import codecs
import urllib.parse
import zlib

MAX_BYTES = 200_000

_HEX = ("hex", "hex_codec")


def base64_text(raw: bytes) -> bytes | None:
    """Standard and URL-safe, missing padding forgiven."""
    raw = b"".join(raw.split()).translate(bytes.maketrans(b"-_", b"+/")).rstrip(b"=")
    try:
        return base64.b64decode(raw + b"=" * (-len(raw) % 4))
    except (binascii.Error, ValueError):
        return None


def base_n(name: str, raw: bytes) -> bytes | None:
    """``b32decode``, ``b16decode``, ``b85decode``, ``a85decode``, ``b64decode`` and its relatives."""
    if "64" in name:
        return base64_text(raw)
    decoder = {
        "b32decode": base64.b32decode,
        "b32hexdecode": base64.b32hexdecode,
        "b16decode": lambda data: base64.b16decode(data, casefold=True),
        "b85decode": base64.b85decode,
        "a85decode": base64.a85decode,
    }.get(name)
    try:
        return decoder(raw) if decoder is not None else None
    except (binascii.Error, ValueError, OverflowError):
        return None


def hex_text(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text.replace("\\x", "").replace(":", ""))
    except ValueError:
        return None


def inflated(raw: bytes, window: int = 47) -> bytes | None:
    """zlib, gzip (``window`` 47 tells them apart) or raw deflate (-15)."""
    try:
        reader = zlib.decompressobj(window)
        text = reader.decompress(raw, MAX_BYTES)
    except zlib.error:
        return None
    return None if reader.unconsumed_tail else text


def unpacked(kind: str, raw: bytes) -> bytes | None:
    """bz2 or lzma."""
    import bz2
    import lzma

    try:
        if kind == "bz2":
            return bz2.BZ2Decompressor().decompress(raw, MAX_BYTES)
        return lzma.LZMADecompressor(memlimit=64 << 20).decompress(raw, MAX_BYTES)
    except (OSError, EOFError, ValueError, lzma.LZMAError):
        return None


def rot13(text: str) -> str:
    return codecs.decode(text, "rot13")


def by_codec(codec: str, raw: bytes) -> str | bytes | None:
    """``codecs.decode(raw, codec)`` for the codecs that are known not to grow."""
    codec = codec.lower().replace("-", "_")
    if codec in ("rot13", "rot_13"):
        return rot13(raw.decode("latin-1"))
    if codec in _HEX:
        return hex_text(raw.decode("latin-1"))
    if codec in ("base64", "base64_codec"):
        return base64_text(raw)
    if codec in ("zlib", "zip", "zlib_codec"):
        return inflated(raw)
    if codec in ("bz2", "bz2_codec"):
        return unpacked("bz2", raw)
    return text_of(raw, codec)


def text_of(raw: bytes, codec: str = "utf-8") -> str | None:
    codec = codec.lower().replace("-", "_")
    if codec.startswith("unicode_escape"):
        codec = "unicode_escape"
    elif codec not in ("ascii", "latin_1", "latin1", "utf_16", "utf_16le", "utf_16_le", "utf_32", "utf_7", "cp1252", "cp037"):
        codec = "utf-8"
    try:
        return raw.decode(codec, "surrogateescape" if codec == "utf-8" else "replace")
    except (UnicodeDecodeError, DeprecationWarning, SyntaxWarning):
        return None


def unquoted(text: str) -> str:
    return urllib.parse.unquote(text)
