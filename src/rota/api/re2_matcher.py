"""Regular expressions that users write, matched by RE2: Go's syntax, in time linear in the text.

Users choose the expressions (schemas of kinds, selectors of HyperNodes) and the texts. Together they could
keep a backtracking matcher busy for years; RE2 cannot be attacked so. Error messages are those of Go's parser, because
clients know them.
"""

import functools
import re
from typing import Final

import re2

#: Memory limit of one compiled expression; an expression that needs more is refused.
_MAX_MEMORY_BYTES: Final = 8 << 20
#: Escapes and quoted parts, one by one: Go refuses `\C` (one byte), which RE2 accepts.
_ESCAPES: Final = re.compile(r"\\(?:Q.*?(?:\\E|\Z)|.)", re.DOTALL)
#: Errors that RE2 and Go have in common, by the beginning of RE2's message.
_GO_WORDS: Final = {
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "bad repetition operator": "invalid nested repetition operator",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
    "pattern too large - compile failed": "expression too large",
}


class PatternError(ValueError):
    """An invalid expression; the message is that of Go's parser."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"error parsing regexp: {what}: `{where}`")


class Pattern:
    """A compiled expression."""

    __slots__ = ("_compiled",)

    def __init__(self, pattern: str) -> None:
        for escape in _ESCAPES.finditer(pattern):
            if escape.group() == r"\C":
                raise PatternError("invalid escape sequence", r"\C")
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.max_mem = _MAX_MEMORY_BYTES
        try:
            self._compiled: Final = re2.compile(pattern.encode(), options)
        except re2.error as error:
            raise _refusal(error) from None
        except UnicodeEncodeError:
            raise PatternError("invalid UTF-8", pattern.encode(errors="replace").decode()) from None

    def search(self, text: str) -> bool:
        """Whether the expression matches anywhere in a text."""
        return self._compiled.search(text.encode(errors="surrogatepass")) is not None


class Finder:
    """A compiled expression that says what it matches."""

    __slots__ = ("_compiled",)

    def __init__(self, pattern: str) -> None:
        Pattern(pattern)
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MAX_MEMORY_BYTES
        self._compiled: Final = re2.compile(pattern.encode(), options)

    def find(self, text: str, count: int) -> list[str]:
        """The first matches; all if `count` is negative."""
        found: list[str] = []
        for match in self._compiled.finditer(text.encode(errors="surrogatepass")):
            if len(found) == count:
                break
            found.append(match.group().decode(errors="replace"))
        return found


@functools.lru_cache(maxsize=1024)
def compile_finder(pattern: str) -> Finder:
    """Compile an expression whose matches are wanted; PatternError if it is invalid."""
    return Finder(pattern)


@functools.lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Pattern:
    """Compile an expression of RE2's syntax; PatternError if it is invalid."""
    return Pattern(pattern)


def _refusal(error: re2.error) -> PatternError:
    said = error.args[0]
    message = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    what, _, where = message.partition(": ")
    return PatternError(_GO_WORDS.get(what, what), where)
