"""Values as Go prints them (%q, %v, %#v), because upstream's error messages contain them.

Clients and their tests compare these messages, so the texts of `errors` and `fields` must agree with them to
the letter. Nothing else belongs here.
"""

import json
from typing import Final

_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def quote(text: str) -> str:
    """`%q` of a string."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_ESCAPES.get(character) or _escape(character) for character in text) + '"'


def quote_all(texts: list[str]) -> str:
    """Quoted strings, joined by a comma and a blank."""
    return ", ".join(quote(text) for text in texts)


def plain(value: bool | float) -> str:
    """`%v` of a boolean or a number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if value == value // 1 and abs(value) < 1e21 else repr(value)


def literal(value: object) -> str:
    """JSON, as Go shows lists, maps and structs."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def _escape(character: str) -> str:
    if character.isprintable():
        return character
    point = ord(character)
    if point < 0x80:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
