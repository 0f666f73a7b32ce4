"""Kubernetes quantities, exact: "100m", "1.5Gi", "12e6".

A quantity is an integer count of nano units plus the notation it was written in; no floating point takes
part. Parsing, rounding and canonical output follow `k8s.io/apimachinery/pkg/api/resource` (1.37): finer than
nano rounds away from zero, binary notation is capped at 2^63-1, and a string that is canonical already is
given back as it came.

Two differences, both far outside real use: amounts of 1000E and more keep their suffix when printed (upstream
drops it), and exponents beyond `MAX_EXPONENT` are refused, because writing such a number out would cost time
and memory without bound.
"""

import enum
import functools
from dataclasses import dataclass, field
from typing import Final

MAX_INT64: Final = 2**63 - 1
MAX_EXPONENT: Final = 1000

_NANO: Final = 10**9
_SPLIT: Final = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_DIGITS: Final = frozenset("0123456789")
_SUFFIX_LETTERS: Final = frozenset("eEinumkKMGTP")


class QuantityError(ValueError):
    """The text is no quantity; write a number with an optional suffix, such as 500m, 2, 1.5Gi or 12e6."""


class Format(enum.Enum):
    """The notation that a quantity was written in, and is written in again."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIX: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

#: Clusters hold a few hundred different quantities; the bound is against those who make them up.
_CACHE_SIZE: Final = 8192

#: Up to this many digits upstream computes with int64; only there it gives canonical input back unchanged.
_INT64_DIGITS: Final = 18


@functools.total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount; equality, order and hash look at the amount, not at the notation."""

    nanos: int
    format: Format = Format.DECIMAL_SI
    #: What was parsed, if it is what upstream would print again.
    text: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.text if self.text is not None else _canonical(self.nanos, self.format)

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: "Quantity") -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos + other.nanos, self.format if self.nanos else other.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos - other.nanos, self.format if self.nanos else other.format)

    def __neg__(self) -> "Quantity":
        return Quantity(-self.nanos, self.format)

    def __mul__(self, factor: int) -> "Quantity":
        return Quantity(self.nanos * factor, self.format)

    def value(self) -> int:
        """The amount in whole units, rounded away from zero, saturating at 64 bits."""
        return _saturate(_divide_away(self.nanos, _NANO))

    def milli_value(self) -> int:
        """The amount in thousandths, rounded away from zero, saturating at 64 bits."""
        return _saturate(_divide_away(self.nanos, 10**6))


ZERO: Final = Quantity(0, Format.DECIMAL_SI, "0")


def parse(text: str) -> Quantity:
    """The quantity that `text` denotes, or `QuantityError` with upstream's message."""
    if not text:
        raise QuantityError(f"quantities must match the regular expression '{_SPLIT}'")
    scanned = _scan(text)
    base, exponent, notation = _interpret(scanned.suffix)
    exact = _exact_int64(scanned, base=base, exponent=exponent)
    if exact is not None:
        nanos, canonical = exact
        return Quantity(nanos, notation, text if canonical else None)
    digits = scanned.whole + scanned.fraction
    if not scanned.has_digits:
        raise QuantityError("unable to parse numeric part of quantity")
    nanos = _scaled_to_nanos(_int(digits), base=base, exponent=exponent, places=len(scanned.fraction))
    if base == 2:
        nanos = min(nanos, MAX_INT64 * _NANO)
        if 0 < nanos < _NANO:
            notation = Format.DECIMAL_SI
    return Quantity(nanos if scanned.positive else -nanos, notation)


def from_wire(value: object) -> Quantity:
    """The quantity of a JSON value: a string (blanks around it are ignored), a number, or null for zero."""
    if isinstance(value, str):
        return parse(value.strip())
    if value is None:
        return ZERO
    if isinstance(value, int | float) and not isinstance(value, bool):
        return parse(repr(value))
    raise QuantityError(f"quantities must match the regular expression '{_SPLIT}'")


@functools.lru_cache(maxsize=_CACHE_SIZE)
def value(quantity: str | int | float | None) -> int:  # noqa: PYI041 - JSON numbers arrive as either
    """Whole units of a quantity as it stands in an object: `value("1.5Gi") == 1610612736`."""
    return from_wire(quantity).value()


@functools.lru_cache(maxsize=_CACHE_SIZE)
def milli(quantity: str | int | float | None) -> int:  # noqa: PYI041 - JSON numbers arrive as either
    """Thousandths of a quantity as it stands in an object: `milli("1.5") == 1500`."""
    return from_wire(quantity).milli_value()


@functools.lru_cache(maxsize=_CACHE_SIZE)
def canonical(quantity: str | int | float | None) -> str:  # noqa: PYI041 - JSON numbers arrive as either
    """The form in which an API server stores a quantity: `canonical("0.5") == "500m"`."""
    return str(from_wire(quantity))


def from_value(amount: int, notation: Format = Format.DECIMAL_SI) -> Quantity:
    """A quantity of whole units."""
    return Quantity(amount * _NANO, notation)


def from_milli(amount: int, notation: Format = Format.DECIMAL_SI) -> Quantity:
    """A quantity of thousandths."""
    return Quantity(amount * 10**6, notation)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scanned:
    positive: bool
    whole: str
    fraction: str
    suffix: str
    has_digits: bool


def _scan(text: str) -> _Scanned:
    """Split into sign, digits and suffix; the suffix is only checked for its characters here."""
    start = 1 if text[0] in "+-" else 0
    whole_end = _skip(text, start, _DIGITS)
    position = whole_end
    fraction = ""
    if position < len(text) and text[position] == ".":
        position = _skip(text, whole_end + 1, _DIGITS)
        fraction = text[whole_end + 1 : position]
    suffix_start = position
    position = _skip(text, position, _SUFFIX_LETTERS)
    if position < len(text) and text[position] in "+-":
        position += 1
    if _skip(text, position, _DIGITS) != len(text):
        raise QuantityError(f"quantities must match the regular expression '{_SPLIT}'")
    whole = text[start:whole_end]
    return _Scanned(
        positive=text[0] != "-",
        whole=whole.lstrip("0") or "0",
        fraction=fraction,
        suffix=text[suffix_start:],
        has_digits=bool(whole or fraction),
    )


def _skip(text: str, position: int, characters: frozenset[str]) -> int:
    while position < len(text) and text[position] in characters:
        position += 1
    return position


def _interpret(suffix: str) -> tuple[int, int, Format]:
    """The base, exponent and notation that a suffix stands for."""
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], Format.DECIMAL_SI
    if suffix in _BINARY:
        return 2, _BINARY[suffix], Format.BINARY_SI
    if suffix[0] in "eE" and len(suffix) > 1:
        digits = suffix[2:] if suffix[1] in "+-" else suffix[1:]
        if digits and set(digits) <= _DIGITS:
            exponent = -_int(digits) if suffix[1] == "-" else _int(digits)
            if exponent <= MAX_EXPONENT:
                return 10, exponent, Format.DECIMAL_EXPONENT
    raise QuantityError("unable to parse quantity's suffix")


def _int(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:  # more digits than Python converts
        raise QuantityError("unable to parse numeric part of quantity") from None


def _exact_int64(scanned: _Scanned, *, base: int, exponent: int) -> tuple[int, bool] | None:
    """Nanos and whether the text is canonical already, where upstream's int64 arithmetic is exact."""
    digits = scanned.whole + scanned.fraction
    if base == 10:
        scale = exponent - len(scanned.fraction)
        if len(digits) > _INT64_DIGITS or scale < -9:
            return None
        amount = int(digits)
        nanos = amount * 10 ** (scale + 9)
        canonical = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    else:
        # upstream allows about 15 decimal digits here, counting three for every ten binary ones
        if scanned.fraction or len(digits) + exponent * 3 // 10 + 1 > 15:
            return None
        amount = int(digits)
        nanos = (amount << exponent) * _NANO
        canonical = amount & 7 != 0
    return (nanos if scanned.positive else -nanos), canonical


def _scaled_to_nanos(amount: int, *, base: int, exponent: int, places: int) -> int:
    """`amount` * base^exponent / 10^places in nanos, rounded up."""
    if base == 2:
        amount <<= exponent
        exponent = 0
    shift = exponent - places + 9
    if shift >= 0:
        factor: int = 10**shift
        return amount * factor
    if len(str(amount)) + shift < 0:
        return 1 if amount else 0  # far below a nano: do not build the power of ten
    divisor: int = 10**-shift
    return _divide_away(amount, divisor)


def _divide_away(amount: int, divisor: int) -> int:
    """Quotient rounded away from zero."""
    return -(-amount // divisor) if amount >= 0 else amount // divisor


def _saturate(amount: int) -> int:
    return max(min(amount, MAX_INT64), -MAX_INT64 - 1)


def _canonical(nanos: int, notation: Format) -> str:
    """No fraction, no loss, and the largest suffix that allows both."""
    if nanos == 0:
        return "0"
    if notation is Format.BINARY_SI:
        units, rest = divmod(nanos, _NANO)
        if abs(nanos) >= 1024 * _NANO and rest == 0:
            return _binary_canonical(units)
        notation = Format.DECIMAL_SI  # a binary suffix would not help, or not be exact
    exponent = -9
    while nanos % 1000 == 0 and (exponent < 18 or notation is Format.DECIMAL_EXPONENT):
        nanos //= 1000
        exponent += 3
    if notation is Format.DECIMAL_EXPONENT:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIX[exponent]}"


def _binary_canonical(units: int) -> str:
    power = 0
    while units % 1024 == 0 and power < len(_BINARY_SUFFIX) - 1:
        units //= 1024
        power += 1
    return f"{units}{_BINARY_SUFFIX[power]}"
