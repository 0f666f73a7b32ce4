"""Tokens of CEL expressions."""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple


class SyntaxIssue(Exception):
    """The expression cannot be read; `position` counts code points."""

    def __init__(self, position: int, text: str) -> None:
        super().__init__(text)
        self.position: Final = position
        self.text: Final = text


class Token(NamedTuple):
    """A token. `kind` is its own text for operators and keywords."""

    kind: str
    text: str
    position: int
    value: Any = None


RESERVED: Final = frozenset(
    {
        "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
        "package", "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
_WORDS: Final = {"true": True, "false": False, "null": None}
_SPACE: Final = re.compile(r"(?:[\t \r\n\x0c]|//[^\n]*)+")
_NUMBER: Final = re.compile(
    r"(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)"
    r"|(?P<int>0x[0-9a-fA-F]+|\d+)(?P<unsigned>[uU])?"
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STRING: Final = re.compile(
    r"(?P<prefix>[rR]?[bB][rR]?|[rR])?(?P<quote>\"\"\"|'''|\"|')",
)
_OPERATORS: Final = ("==", "!=", "<=", ">=", "&&", "||", *"<>[]{}().,-!?:+*/%")
_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    '"': '"', "'": "'", "\\": "\\", "?": "?", "`": "`",
}  # fmt: skip
_DIGITS: Final = {"x": 2, "X": 2, "u": 4, "U": 8}
_MOST_INT: Final = 2**63
_MOST_UINT: Final = 2**64


def tokens(text: str) -> Iterator[Token]:
    """All tokens and an `end`; SyntaxIssue if there is something else."""
    at, size = 0, len(text)
    while True:
        if space := _SPACE.match(text, at):
            at = space.end()
        if at >= size:
            yield Token("end", "<EOF>", size)
            return
        token, at = _next(text, at)
        yield token


def _next(text: str, at: int) -> tuple[Token, int]:
    if (string := _STRING.match(text, at)) is not None:
        return _string(text, at, string)
    if (name := _NAME.match(text, at)) is not None:
        word = name.group()
        if word in _WORDS:
            return Token("literal", word, at, _WORDS[word]), name.end()
        return Token("in" if word == "in" else "name", word, at), name.end()
    number = _NUMBER.match(text, at)
    if number is not None:
        return _number(number, at), number.end()
    for operator in _OPERATORS:
        if text.startswith(operator, at):
            return Token(operator, operator, at), at + len(operator)
    raise SyntaxIssue(at, f"Syntax error: token recognition error at: '{text[at]}'")


def _number(number: "re.Match[str]", at: int) -> Token:
    if number["float"] is not None:
        return Token("literal", number.group(), at, float(number["float"]))
    digits = number["int"]
    # Decimal numbers of any length are refused before they are converted, which takes quadratic time.
    value = int(digits, 0) if digits.startswith("0x") else int(digits) if len(digits) < 30 else _MOST_UINT
    if number["unsigned"]:
        if value >= _MOST_UINT:
            raise SyntaxIssue(at, "invalid uint literal")
        return Token("unsigned", number.group(), at, value)
    return Token("int", number.group(), at, value)


def integer(value: int, *, negative: bool, position: int) -> int:
    """The value of an integer literal with its sign."""
    result = -value if negative else value
    if not -_MOST_INT <= result < _MOST_INT:
        raise SyntaxIssue(position, "invalid int literal")
    return result


def _string(text: str, at: int, opening: "re.Match[str]") -> tuple[Token, int]:
    prefix, quote = (opening["prefix"] or "").lower(), opening["quote"]
    raw, is_bytes = "r" in prefix, "b" in prefix
    parts: list[str] = []
    encoded = bytearray()

    def add(piece: str) -> None:
        if is_bytes:
            encoded.extend(piece.encode())
        else:
            parts.append(piece)

    here = opening.end()
    while True:
        if text.startswith(quote, here):
            value = bytes(encoded) if is_bytes else "".join(parts)
            end = here + len(quote)
            return Token("literal", text[at:end], at, value), end
        if here >= len(text) or (len(quote) == 1 and text[here] in "\r\n"):
            raise SyntaxIssue(at, f"Syntax error: token recognition error at: '{text[at:here]}'")
        if text[here] != "\\" or raw:
            add(text[here])
            here += 1
            continue
        here = _escape(text, here, add, encoded if is_bytes else None)


def _escape(text: str, at: int, add: Any, encoded: bytearray | None) -> int:
    letter = text[at + 1 : at + 2]
    if letter in _ESCAPES and letter:
        add(_ESCAPES[letter])
        return at + 2
    if letter in "0123" and letter:
        digits, base, end = text[at + 1 : at + 4], 8, at + 4
        wanted = 3
    elif letter in _DIGITS:
        wanted = _DIGITS[letter]
        digits, base, end = text[at + 2 : at + 2 + wanted], 16, at + 2 + wanted
    else:
        raise SyntaxIssue(at, f"Syntax error: token recognition error at: '{text[at : at + 2]}'")
    try:
        code = int(digits, base) if len(digits) == wanted and digits.isalnum() else -1
    except ValueError:
        code = -1
    if code < 0 or (letter in "uU" and encoded is not None):
        raise SyntaxIssue(at, f"invalid escape sequence: {text[at:end]}")
    if encoded is not None:
        encoded.append(code)
    elif code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise SyntaxIssue(at, f"invalid unicode code point: {text[at:end]}")
    else:
        add(chr(code))
    return end
