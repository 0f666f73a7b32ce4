"""Durations, timestamps and floating-point numbers as text, in Go's notations."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from rota.api.cel.values import Duration, EvaluationError, Timestamp, checked_duration

_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PIECE: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_MOMENT: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))")
_SECOND: Final = 1_000_000_000


def duration_nanos(text: str) -> int | None:
    """The nanoseconds of a duration such as `1h30m`; None if it is none."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    total, at = Decimal(0), 0
    if len(rest) > 200:
        return None
    while at < len(rest):
        piece = _PIECE.match(rest, at)
        if piece is None:
            return None
        total += Decimal(piece[1]) * _UNITS[piece[2]]
        at = piece.end()
    return sign * int(total) if rest else None


def parse_duration(text: str) -> Duration:
    """`duration(text)`."""
    nanos = duration_nanos(text)
    if nanos is None:
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Duration'")
    return checked_duration(nanos)


def parse_timestamp(text: str) -> Timestamp:
    """`timestamp(text)`: RFC 3339."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    try:
        moment = datetime(*(int(found[number]) for number in range(1, 7)), tzinfo=UTC)  # type: ignore[misc, arg-type]
    except ValueError:
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Timestamp'") from None
    fraction = int(((found[7] or "") + "0" * 9)[:9])
    offset = 0
    if found[8]:
        offset = (int(found[9]) * 3600 + int(found[10]) * 60) * (1 if found[8] == "+" else -1)
    seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1) - offset
    return Timestamp(seconds * _SECOND + fraction, offset)


def seconds_text(value: int) -> str:
    """A duration as `string()` writes it: seconds."""
    return f"{float_text(int(value) / _SECOND)}s"


def float_text(value: float) -> str:
    """A number in Go's shortest form (`%g` with the fewest digits that identify it)."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    sign, text = ("-", text[1:]) if text.startswith("-") else ("", text)
    digits, exponent = _digits(text)
    if not digits:
        return f"{sign}0"
    point = exponent + len(digits)
    if point < -3 or point > 21:
        mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        power = point - 1
        return f"{sign}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if point >= len(digits):
        return f"{sign}{digits}{'0' * (point - len(digits))}"
    return f"{sign}{digits[:point]}.{digits[point:]}"


def _digits(text: str) -> tuple[str, int]:
    """The significant digits, and the power of ten of the last one."""
    mantissa, _, power = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits, exponent = whole + fraction, int(power or 0) - len(fraction)
    stripped = digits.rstrip("0")
    exponent += len(digits) - len(stripped)
    return stripped.lstrip("0"), exponent
