"""`string.format` and `strings.quote`."""

import re
from typing import Any, Final

from rota.api.cel import times
from rota.api.cel.types import Type
from rota.api.cel.values import Duration, EvaluationError, Timestamp, from_key, type_of

CLAUSE: Final = re.compile(r"%(?:\.(\d*))?(.?)", re.DOTALL)
_QUOTED: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
_SUPERSCRIPTS: Final = str.maketrans(
    "0123456789-", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b"
)
#: A precision beyond this makes texts that no limit counts.
_MOST_PRECISION: Final = 1000


def quote(text: str) -> str:
    """A text in quotes, with escapes."""
    return '"' + "".join(_QUOTED.get(one, one) for one in text) + '"'


def format_text(text: Any, args: Any) -> str:
    """Fill the clauses of a text with arguments."""
    if not isinstance(text, str) or not isinstance(args, list):
        raise EvaluationError("no such overload")
    used = 0

    def fill(clause: "re.Match[str]") -> str:
        nonlocal used
        verb = clause[2]
        if verb == "%" and clause[1] is None:
            return "%"
        if verb == "":
            raise EvaluationError("unexpected end of string")
        if used >= len(args):
            raise EvaluationError(f"index {used} out of range")
        value = args[used]
        used += 1
        return _clause(verb, clause[1], value)

    return CLAUSE.sub(fill, text)


def _clause(verb: str, precision: str | None, value: Any) -> str:
    places = min(int(precision), _MOST_PRECISION) if precision else 6
    match verb:
        case "s":
            return _string(value)
        case "d":
            if isinstance(value, int) and not isinstance(value, bool | Duration):
                return str(int(value))
            if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
                return _special(value)
            raise _wrong("decimal clause can only be used on integers, was given", value)
        case "f":
            return _fixed(value, places, "f", "fixed-point clause can only be used on doubles, was given")
        case "e":
            return _fixed(value, places, "e", "scientific clause can only be used on doubles, was given")
        case "b":
            if isinstance(value, int) and not isinstance(value, Duration):
                return f"{int(value):b}"
            raise _wrong("only integers and bools can be formatted as binary, was given", value)
        case "o":
            if isinstance(value, int) and not isinstance(value, bool | Duration):
                return f"{int(value):o}"
            raise _wrong("octal clause can only be used on integers, was given", value)
        case "x" | "X":
            text = _hex(value)
            return text.upper() if verb == "X" else text
    raise EvaluationError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')


def _wrong(text: str, value: Any) -> EvaluationError:
    return EvaluationError(f"error during formatting: {text} {type_of(value)}")


def _hex(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool | Duration):
        return f"{int(value):x}"
    if isinstance(value, str):
        return value.encode().hex()
    if isinstance(value, bytes):
        return value.hex()
    raise _wrong("only integers, byte buffers, and strings can be formatted as hex, was given", value)


def _special(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _fixed(value: Any, places: int, kind: str, text: str) -> str:
    if not isinstance(value, float | int) or isinstance(value, bool | Duration):
        raise _wrong(text, value)
    if value != value or value in (float("inf"), float("-inf")):
        return _special(float(value))
    if kind == "f":
        return f"{value:,.{places}f}"
    mantissa, _, exponent = f"{value:.{places}e}".partition("e")
    return f"{mantissa}\u202f\u00d7\u202f10{exponent.lstrip('+').translate(_SUPERSCRIPTS)}"


def _string(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case bytes():
            return value.decode(errors="replace")
        case Duration():
            return times.seconds_text(value)
        case float():
            return (
                _special(value) if value != value or value in (float("inf"), float("-inf")) else times.float_text(value)
            )
        case int():
            return str(int(value))
        case Timestamp() | Type():
            return str(value)
        case list():
            return f"[{', '.join(map(_string, value))}]"
        case dict():
            pairs = sorted((_string(from_key(key)), _string(each)) for key, each in value.items())
            return "{" + ", ".join(f"{key}: {each}" for key, each in pairs) + "}"
    if hasattr(value, "cel_text"):
        return str(value)
    raise _wrong(
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
        "timestamps, was given",
        value,
    )
