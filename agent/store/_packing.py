"""Compact records in the store: messages, calls and their results.

Most text in a record occurs twice, and much of the rest in every record. A packed record is raw deflate after one byte that names
the dictionary. No JSON begins with such a byte, so records of an older toolcrib are read unchanged.
"""

from __future__ import annotations

import zlib
from typing import Any

from agent.store._codec import Stored, load, plain, text

_LEAST = 160
"""Records with fewer characters are not packed, because packing saves nothing."""
_LEVEL = 3
"""A record of 1.5 kB shrinks to 29 %; with the highest level to 28 %, in twice the time."""
_WINDOW = -15
_SHORT = 6000
"""Maximum number of characters of a record that fits into a small window together with the dictionary."""
_SMALL, _LARGE = (-13, 5), (_WINDOW, 8)
"""Window and memory level.

For a large window the system provides fresh pages each time, which takes longer than packing a short record.
"""
_DICTIONARIES = {
    1: b'"steered":[],"state":{},"truncated":true,"images":[{"media_type":"image/png","data":"'
    b'{"role":"user","text":"","at":1760000000.0,"by":"","principal":{}'
    b'{"role":"results","results":[{"call_id":"call_","name":"search_files","text":"{\\"error\\":\\"Error executing '
    b'","text":"{\\"output\\":\\"\\",\\"exit_code\\":0}","is_error":false,"seconds":0.0'
    b'{"role":"assistant","text":"","calls":[{"id":"toolu_01","name":"read_file","args":{"path":"","offset":1,"limit":'
    b'{"id":"call_","name":"patch","args":{"path":"","old_string":"","new_string":"","content":"","command":"'
    b'"}}],"finish":"tool_calls","stop","usage":{"input":0,"output":0,"cached":0,"reasoning":0},"cost":0.0,"model":"gpt-'
    b'"via":{"provider":"openai","base_url":"https://api.","model":"claude-","key_env":"OPENAI_API_KEY"},"native":{"wire":"'
    b'responses","message":{"id":"resp_","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"'
    b'anthropic","message":{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"'
    b'{"type":"tool_use","id":"toolu_01","name":"write_file","input":{"path":"'
    b'gemini","message":{"role":"model","parts":[{"text":"","thoughtSignature":"'
    b'chat","message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_","type":"function","function":'
    b'{"name":"terminal","arguments":"{\\"command\\":\\"',
    2: b'"images":[{"media_type":"image/png","data":"'
    b'"end_run":true"state":{"todos":[{"id":"","content":"","status":"pending"in_progress"completed"'
    b'"suspension":{"id":"","call":{"id":"call_","name":"","args":{}},"action":"approve","message":"","parameters":{'
    b'"status":"error","data":null,"message":"Error executing ","failure":[true,"ExecutionFailed","InvalidArguments","Denied","'
    b'{"name":"patch","args":{"path":"","old_string":"","new_string":"'
    b'{"name":"search_files","args":{"pattern":"","path":""}{"name":"write_file","args":{"path":"","content":"'
    b'{"name":"read_file","args":{"path":"","offset":1,"limit":{"name":"terminal","args":{"command":""},"fault":null,"turn":"'
    b'{"tool_name":"search_files","status":"success","data":{"matches":[{"path":"","line":1,"text":"'
    b'{"tool_name":"patch","status":"success","data":{"path":"","diff":"--- a/\\n+++ b/\\n@@ -1,'
    b'{"tool_name":"read_file","status":"success","data":{"path":"","content":"","first_line":1,"last_line":1,"total_lines":1,'
    b'"encoding":"utf-8"},"message":null,"suspension":null,"views":{"model":": lines 1-1 of 1\\n1|"},"failure":null}'
    b'{"tool_name":"terminal","status":"success","data":{"output":"","exit_code":0,"cwd":""},"message":null,"suspension":null,'
    b'"views":{"model":"{\\"output\\":\\"\\",\\"exit_code\\":0}"},"failure":null}',
}
"""Dictionaries by the byte that names them. A dictionary that was ever used must stay.

The most frequent text is at the end, because references to the last bytes are shortest.
"""
MESSAGE, CALL = 1, 2
"""The newest dictionaries for messages, and for calls and their results."""


def pack(json_text: Stored, dictionary: int = MESSAGE) -> Stored:
    """Return a record's JSON in its stored form."""
    if len(json_text) < _LEAST:
        return json_text
    window, memory = _SMALL if len(json_text) < _SHORT else _LARGE
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, window, memory, zdict=_DICTIONARIES[dictionary])
    raw = json_text.encode() if isinstance(json_text, str) else json_text
    return b"%c%b%b" % (dictionary, packer.compress(raw), packer.flush())


def unpacked(stored: Stored) -> Stored:
    """Return a record's JSON. Raises ValueError for a damaged record."""
    if isinstance(stored, str) or stored[:1] == b"{":
        return stored
    dictionary = _DICTIONARIES.get(stored[0]) if stored else None
    if dictionary is None:
        raise ValueError("a record is packed in an unknown way")
    unpacker = zlib.decompressobj(_WINDOW, zdict=dictionary)
    try:
        raw = unpacker.decompress(stored[1:]) + unpacker.flush()
    except zlib.error as error:
        raise ValueError(f"a packed record is damaged ({error})") from error
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("a packed record is damaged (it is incomplete)")
    return text(plain(raw))


def load_message(stored: Stored) -> Any:
    """Return the record. Raises ValueError for a damaged record."""
    return load(unpacked(stored))
