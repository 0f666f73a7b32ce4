"""Bytes in JSON: the position of invalid base64, as Go's decoder reports it.

Go reads four characters at a time and skips line ends. It names the character that does not belong there; where the
text ends too early, the first character of the four that are not complete.
"""

from typing import Final

_ALPHABET: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_LINE_ENDS: Final = "\r\n"


def broken_at(text: str) -> int | None:
    """The position, counted in bytes of UTF-8, that Go's decoder complains about; None if the text is whole."""
    broken = _broken_character(text)
    return None if broken is None else len(text[:broken].encode())


def _broken_character(text: str) -> int | None:
    at, within = 0, 0
    while at < len(text):
        character = text[at]
        if character in _ALPHABET:
            within = (within + 1) % 4
        elif character == "=":
            return _broken_padding(text, at, within)
        elif character not in _LINE_ENDS:
            return at
        at += 1
    return at - within if within else None


def _broken_padding(text: str, at: int, within: int) -> int | None:
    """What is wrong from the first `=` on, after so many characters of the last four."""
    if within < 2:
        return at
    after = _past_line_ends(text, at + 1)
    if within == 2:
        if after == len(text):
            return len(text)
        if text[after] != "=":
            return after
        after = _past_line_ends(text, after + 1)
    return after if after < len(text) else None


def _past_line_ends(text: str, at: int) -> int:
    while at < len(text) and text[at] in _LINE_ENDS:
        at += 1
    return at
