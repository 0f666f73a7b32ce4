"""The `timeout` parameter of a request: a duration in Go's format, `1m30s`. Pure."""

import re
from typing import Final

from rota.api import errors, gotext

_UNITS_S: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE: Final = re.compile(rf"[-+]?(?:0|(?:{_PART.pattern})+)")


def limit(timeout: str, most_s: float) -> float:
    """The time limit of a request with this `timeout`; BadRequest if it is not a duration.

    It is at most `most_s`, which zero and no value also mean.
    """
    if len(timeout) > 64 or not _WHOLE.fullmatch(timeout):
        why = f"time: invalid duration {gotext.quote(timeout)}"
        raise errors.bad_request(f"invalid timeout specified in the request URL - {why}")
    seconds = sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(timeout))
    return min(seconds, most_s) if seconds > 0 and not timeout.startswith("-") else most_s
