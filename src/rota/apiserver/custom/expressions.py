"""The syntax of Go's regular expressions (RE2), read into a tree.

Captures are read as plain groups and repetitions as greedy ones: here it only matters whether a text matches. What RE2
does not have is refused in its words: looking around, back references. Scripts as classes (`\\p{Greek}`) are refused
for want of tables; general categories (`\\p{Lu}`) are known.
"""

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from rota.apiserver.custom.characters import (
    DIGITS,
    NOT_A_NEWLINE,
    POSIX,
    SPACES,
    WORDS,
    Characters,
    category,
)

#: Repetitions are written out, so there is a limit to them; RE2's is the same.
_MOST_REPETITIONS: Final = 1000
_DEEPEST: Final = 100
_ESCAPED: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CLASSES: Final = {"d": DIGITS, "s": SPACES, "w": WORDS}
_OCTAL: Final = "01234567"


class PatternError(ValueError):
    """An expression that cannot be used; the message is that of Go's parser."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"error parsing regexp: {what}: `{where}`")


@dataclass(frozen=True, slots=True)
class Single:
    """One character out of a set."""

    characters: Characters


@dataclass(frozen=True, slots=True)
class Position:
    """A place between characters: `^ $ \\A \\z \\b \\B`, by their meaning."""

    kind: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other; none at all matches the empty text."""

    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several."""

    options: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """So many times; without an end if `most` is None."""

    part: "Node"
    least: int
    most: int | None


Node: TypeAlias = Single | Position | Sequence | Choice | Repeat


@dataclass(frozen=True, slots=True)
class _Flags:
    fold_case: bool = False
    multi_line: bool = False
    dot_is_all: bool = False


def parse(pattern: str) -> Node:
    """The tree of an expression."""
    reader = _Reader(pattern)
    node = reader.choice(_Flags(), depth=0)
    if reader.at < len(pattern):
        raise PatternError("unexpected )", pattern)
    return node


class _Reader:
    """Where reading has come to."""

    def __init__(self, pattern: str) -> None:
        self.pattern: Final = pattern
        self.at = 0

    def choice(self, flags: _Flags, *, depth: int) -> Node:
        """Everything up to the end of the group."""
        if depth > _DEEPEST:
            raise PatternError("expression nests too deeply", self.pattern)
        options: list[Node] = []
        parts: list[Node] = []
        while (next_ := self._peek()) not in {"", ")"}:
            if next_ == "|":
                self.at += 1
                options.append(Sequence(tuple(parts)))
                parts = []
                continue
            start = self.at
            node, flags = self._atom(flags, depth)
            parts.append(self._repeated(node, start))
        options.append(Sequence(tuple(parts)))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _peek(self, length: int = 1) -> str:
        return self.pattern[self.at : self.at + length]

    def _take(self) -> str:
        taken = self._peek()
        if not taken:
            raise PatternError("trailing backslash at end of expression", "")
        self.at += 1
        return taken

    def _atom(self, flags: _Flags, depth: int) -> tuple[Node, _Flags]:
        next_ = self._take()
        match next_:
            case "(":
                return self._group(flags, depth)
            case "[":
                return Single(self._class(flags)), flags
            case ".":
                return Single(Characters.all() if flags.dot_is_all else NOT_A_NEWLINE), flags
            case "^":
                return Position("line start" if flags.multi_line else "start"), flags
            case "$":
                return Position("line end" if flags.multi_line else "end"), flags
            case "*" | "+" | "?":
                raise PatternError("missing argument to repetition operator", next_)
            case "\\":
                return self._escape(flags), flags
        return _literal(next_, flags), flags

    def _group(self, flags: _Flags, depth: int) -> tuple[Node, _Flags]:
        start = self.at - 1
        inner = flags
        if self._peek() == "?":
            named = next((sign for sign in ("?P<", "?<") if self.pattern.startswith(sign, self.at)), "")
            if named and self.pattern[self.at + len(named) : self.at + len(named) + 1] not in {"=", "!"}:
                self._name(start, named)
            else:
                inner, opens = self._flags(flags, start)
                if not opens:
                    return Sequence(()), inner
        node = self.choice(inner, depth=depth + 1)
        if self._peek() != ")":
            raise PatternError("missing closing )", self.pattern)
        self.at += 1
        return node, flags

    def _name(self, start: int, sign: str) -> None:
        end = self.pattern.find(">", self.at)
        name = self.pattern[self.at + len(sign) : end]
        if end < 0 or not (name and name.replace("_", "a").isalnum()):
            raise PatternError("invalid named capture", self.pattern[start : end + 1 if end >= 0 else None])
        self.at = end + 1

    def _flags(self, flags: _Flags, start: int) -> tuple[_Flags, bool]:
        """The flags that `(?...` sets, and whether a group follows."""
        on = True
        self.at += 1
        while True:
            sign = self._peek()
            self.at += 1
            match sign:
                case "i":
                    flags = replace(flags, fold_case=on)
                case "m":
                    flags = replace(flags, multi_line=on)
                case "s":
                    flags = replace(flags, dot_is_all=on)
                case "U":
                    pass
                case "-" if on:
                    on = False
                case ":" | ")":
                    return flags, sign == ":"
                case _:
                    raise PatternError("invalid or unsupported Perl syntax", self.pattern[start : self.at])

    def _repeated(self, node: Node, start: int) -> Node:
        operator = self._operator()
        if operator is None:
            return node
        least, most, text = operator
        after = self.at
        if self._operator() is not None:
            raise PatternError("invalid nested repetition operator", text + self.pattern[after : self.at])
        if max(least, most or 0) > _MOST_REPETITIONS or (most is not None and most < least):
            raise PatternError("invalid repeat count", text)
        if isinstance(node, Sequence) and self.pattern.startswith("\\Q", start) and node.parts:
            # of quoted text only the last character is repeated
            return Sequence((*node.parts[:-1], Repeat(node.parts[-1], least, most)))
        return Repeat(node, least, most)

    def _operator(self) -> tuple[int, int | None, str] | None:
        """The repetition that stands here: at least, at most, and how it is written."""
        start = self.at
        bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._peek())
        if bounds is not None:
            self.at += 1
        elif self._peek() == "{":
            bounds = self._braces()
        if bounds is None:
            return None
        # whether as few as possible are taken makes no difference to whether there is a match
        if self._peek() == "?":
            self.at += 1
        return bounds[0], bounds[1], self.pattern[start : self.at]

    def _braces(self) -> tuple[int, int | None] | None:
        """The bounds in braces; None if the braces are plain text."""
        end = self.pattern.find("}", self.at)
        least, comma, most = self.pattern[self.at + 1 : max(end, self.at)].partition(",")
        if not (_is_number(least) and (most == "" or _is_number(most))):
            return None
        self.at = end + 1
        return int(least), (int(most) if most else None) if comma else int(least)

    def _escape(self, flags: _Flags) -> Node:
        match self._peek():
            case "A":
                kind = "start"
            case "z":
                kind = "end"
            case "b":
                kind = "word boundary"
            case "B":
                kind = "no word boundary"
            case "Q":
                return self._quoted(flags)
            case _:
                found = self._escaped()
                return _literal(found, flags) if isinstance(found, str) else Single(found.folded(flags.fold_case))
        self.at += 1
        return Position(kind)

    def _quoted(self, flags: _Flags) -> Node:
        end = self.pattern.find("\\E", self.at)
        text = self.pattern[self.at + 1 : end if end >= 0 else None]
        self.at = end + 2 if end >= 0 else len(self.pattern)
        return Sequence(tuple(_literal(character, flags) for character in text))

    def _escaped(self) -> str | Characters:
        """What stands behind a backslash, in a class or outside: a character or a set of them."""
        start = self.at - 1
        sign = self._take()
        if sign.lower() in _CLASSES:
            found = _CLASSES[sign.lower()]
            return found.inverted() if sign.isupper() else found
        if sign in "pP":
            return self._category(start, inverted=sign == "P")
        if sign in _ESCAPED:
            return _ESCAPED[sign]
        if sign == "x":
            return self._hexadecimal(start)
        if sign == "0" or (sign in _OCTAL and self._peek() in _OCTAL and self._peek()):
            digits = sign
            while len(digits) < 3 and self._peek() and self._peek() in _OCTAL:
                digits += self._take()
            return chr(int(digits, 8))
        if sign.isascii() and not sign.isalnum():
            return sign
        raise PatternError("invalid escape sequence", self.pattern[start : self.at])

    def _hexadecimal(self, start: int) -> str:
        digits = self._peek(2)
        self.at += 2
        if digits.startswith("{"):
            end = self.pattern.find("}", start)
            digits, self.at = self.pattern[start + 3 : max(end, 0)], max(end, 0) + 1
        try:
            return chr(int(digits, 16)) if digits.isalnum() else chr(-1)
        except (ValueError, OverflowError):
            raise PatternError("invalid escape sequence", self.pattern[start : max(self.at, start + 2)]) from None

    def _category(self, start: int, *, inverted: bool) -> Characters:
        name = self._take()
        if name == "{":
            end = self.pattern.find("}", self.at)
            name, self.at = self.pattern[self.at : max(end, self.at)], end + 1
        if name.startswith("^"):
            name, inverted = name[1:], not inverted
        found = category(name)
        if found is None:
            raise PatternError("invalid character class range", self.pattern[start : self.at])
        return found.inverted() if inverted else found

    def _class(self, flags: _Flags) -> Characters:
        start = self.at - 1
        inverted = self._peek() == "^"
        self.at += inverted
        found, first = Characters(), True
        while self._peek() != "]" or first:
            if not self._peek():
                raise PatternError("missing closing ]", self.pattern[start:])
            first = False
            found = found.joined(self._class_item())
        self.at += 1
        found = found.folded(flags.fold_case)
        return found.inverted() if inverted else found

    def _class_item(self) -> Characters:
        if self._peek(2) == "[:":
            end = self.pattern.find(":]", self.at)
            name = self.pattern[self.at + 2 : max(end, self.at)]
            if end >= 0:
                known = POSIX.get(name.removeprefix("^"))
                if known is None:
                    raise PatternError("invalid character class range", self.pattern[self.at : end + 2])
                self.at = end + 2
                return known.inverted() if name.startswith("^") else known
        start = self.at
        low = self._class_character()
        if isinstance(low, Characters):
            return low
        if self._peek() != "-" or self._peek(2) in {"-", "-]"}:
            return Characters.of(low)
        self.at += 1
        high = self._class_character()
        if isinstance(high, Characters) or high < low:
            raise PatternError("invalid character class range", self.pattern[start : self.at])
        return Characters(((ord(low), ord(high)),))

    def _class_character(self) -> str | Characters:
        sign = self._take()
        return self._escaped() if sign == "\\" else sign


def _literal(character: str, flags: _Flags) -> Single:
    return Single(Characters.of(character).folded(flags.fold_case))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and (text == "0" or not text.startswith("0"))
