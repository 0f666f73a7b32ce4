"""Sets of characters, as regular expressions name them."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

_CATEGORIES: Final = frozenset(
    {
        *("Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No", "Pc", "Pd"),
        *("Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"),
        *("C", "L", "M", "N", "P", "S", "Z"),
    }
)


@dataclass(frozen=True, slots=True)
class Characters:
    """Ranges of code points, categories, and other sets; or all that is in none of them."""

    ranges: tuple[tuple[int, int], ...] = ()
    categories: tuple[str, ...] = ()
    others: "tuple[Characters, ...]" = ()
    negated: bool = False
    #: Whether a letter stands for both of its cases.
    folds: bool = False

    @classmethod
    def of(cls, characters: str) -> "Characters":
        """Just these."""
        return cls(tuple((ord(one), ord(one)) for one in characters))

    @classmethod
    def all(cls) -> "Characters":
        """Every character."""
        return cls(negated=True)

    def inverted(self) -> "Characters":
        """All others."""
        return replace(self, negated=not self.negated)

    def folded(self, folds: bool) -> "Characters":
        """The same whatever the case of letters, if wanted."""
        return Characters(others=(self,), folds=True) if folds else self

    def joined(self, other: "Characters") -> "Characters":
        """What is in either."""
        if self == Characters():
            return other
        return Characters(others=(self, other))

    def __contains__(self, character: object) -> bool:
        assert isinstance(character, str)
        found = self._holds(character)
        if not found and self.folds:
            found = self._holds(character.lower()) or self._holds(character.upper())
        return found is not self.negated

    def _holds(self, character: str) -> bool:
        if len(character) != 1:
            return False
        point = ord(character)
        return (
            any(low <= point <= high for low, high in self.ranges)
            or bool(self.categories and unicodedata.category(character).startswith(self.categories))
            or any(character in other for other in self.others)
        )


def category(name: str) -> Characters | None:
    """A general category such as `L` or `Lu`; None if it is not known."""
    return Characters(categories=(name,)) if name in _CATEGORIES else None


def _ranges(text: str) -> Characters:
    """Pairs of characters that begin and end ranges."""
    return Characters(tuple((ord(low), ord(high)) for low, high in zip(text[::2], text[1::2], strict=True)))


DIGITS: Final = _ranges("09")
WORDS: Final = _ranges("09AZaz__")
SPACES: Final = _ranges("\t\n\f\r  ")
NOT_A_NEWLINE: Final = Characters.of("\n").inverted()
POSIX: Final[Mapping[str, Characters]] = {
    "alnum": _ranges("09AZaz"),
    "alpha": _ranges("AZaz"),
    "ascii": _ranges("\x00\x7f"),
    "blank": Characters.of("\t "),
    "cntrl": _ranges("\x00\x1f\x7f\x7f"),
    "digit": DIGITS,
    "graph": _ranges("!~"),
    "lower": _ranges("az"),
    "print": _ranges(" ~"),
    "punct": _ranges("!/:@[`{~"),
    "space": _ranges("\t\r  "),
    "upper": _ranges("AZ"),
    "word": WORDS,
    "xdigit": _ranges("09AFaf"),
}
