"""The string formats that upstream checks in custom objects; other formats are ignored.

Names are compared without dashes, as upstream does. Each check returns whether a string has the format.
"""

import base64
import binascii
import ipaddress
import re
import unicodedata
import urllib.parse
from collections.abc import Callable, Mapping
from datetime import date
from typing import Final, TypeAlias

from rota.api import names

FormatCheck: TypeAlias = Callable[[str], bool]

_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")
_GO_DURATION: Final = re.compile(r"[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+")
_SPOKEN_DURATION: Final = re.compile(
    r"[0-9]+\s*(ns|nano.*|us|µs|micro.*|ms|milli.*|s|sec.*|m|min.*|h|hr|hour.*|d|day.*|w|wk|week.*)", re.IGNORECASE
)
#: A name without dots, in which only the second character may be a dash, or several labels before one of letters only.
_HOST: Final = re.compile(r"[lds](-?[lds]{0,62})?|([lds]([lds-]{0,61}[lds])?\.)+l{2,63}")
_MAC: Final = re.compile(
    r"([0-9a-f]{2}([:-])([0-9a-f]{2}\2){4}[0-9a-f]{2}((\2[0-9a-f]{2}){2}|(\2[0-9a-f]{2}){14})?)"
    r"|([0-9a-f]{4}\.){2,3}[0-9a-f]{4}|([0-9a-f]{4}\.){9}[0-9a-f]{4}",
    re.IGNORECASE,
)
_RGB: Final = re.compile(r"rgb\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")


def lookup(name: str) -> FormatCheck | None:
    """The check of a format; None if it is not checked."""
    return _CHECKS.get(name.replace("-", ""))


def _pattern(expression: str, flags: int = 0) -> FormatCheck:
    matches = re.compile(expression, re.ASCII | flags).fullmatch
    return lambda text: matches(text) is not None


def _uuid(third: str = "[0-9a-f]{4}", fourth: str = "[0-9a-f]{4}") -> FormatCheck:
    return _pattern(f"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}}", re.IGNORECASE)


def _parses(parse: Callable[[str], object]) -> FormatCheck:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


def _date(text: str) -> bool:
    return re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) is not None and _parses(date.fromisoformat)(text)


def _date_time(text: str) -> bool:
    day, _, rest = text.lower().partition("t")
    match = _TIME.fullmatch(rest.partition("t")[0])
    return match is not None and _date(day) and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _duration(text: str) -> bool:
    return _GO_DURATION.fullmatch(text) is not None or _SPOKEN_DURATION.search(text) is not None


def _hostname(text: str) -> bool:
    marks = "".join(_mark(character) for character in text)
    return (
        _HOST.fullmatch(marks) is not None
        and len(text.encode()) <= 255
        and all(len(label.encode()) <= 63 for label in text.split("."))
    )


def _mark(character: str) -> str:
    """The class of a character in a host name: a letter, a digit, a symbol, or itself."""
    if character.isascii() and character.isdigit():
        return "d"
    return {"L": "l", "S": "s"}.get(unicodedata.category(character)[0], character)


def _email(text: str) -> bool:
    local, at, host = text.strip().rpartition("@")
    bare = host.removesuffix(">")
    local = local.rpartition("<")[2] if host != bare else local
    return bool(at and local and bare) and not any(character in f"{local}{bare}" for character in " \t\n<>,;")


def _uri(text: str) -> bool:
    """An absolute URI or an absolute path, as in a request line."""
    if not text or any(character <= " " or character == "\x7f" for character in text):
        return False
    try:
        parts = urllib.parse.urlsplit(text)
        bad_port = parts.netloc and parts.port is None and ":" in parts.netloc.rpartition("]")[2].rstrip(":")
    except ValueError:
        return False
    return bool(parts.scheme or text.startswith("/")) and not bad_port


def _cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    return bool(slash) and length.isdecimal() and "%" not in address and _parses(ipaddress.ip_interface)(text)


def _byte(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return bool(text) and len(text) % 4 == 0


def _isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if re.fullmatch(r"[0-9]{9}[0-9X]", digits) is None:
        return False
    total = sum(
        (10 - place) * (10 if digit == "X" else int(digit)) for place, digit in zip(range(10), digits, strict=True)
    )
    return total % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if re.fullmatch(r"[0-9]{13}", digits) is None:
        return False
    return sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10 == 0


def _credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not 12 <= len(digits) <= 19:
        return False
    doubled = (int(digit) * (2 if place % 2 else 1) for place, digit in enumerate(reversed(digits)))
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def _rgb_color(text: str) -> bool:
    match = _RGB.fullmatch(text)
    return match is not None and all(int(value) <= 255 for value in match.groups())


def _ip(version: int) -> FormatCheck:
    parses = _parses(ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address)
    return lambda text: "%" not in text and parses(text)


_CHECKS: Final[Mapping[str, FormatCheck]] = {
    "bsonobjectid": _pattern("[0-9a-fA-F]{24}"),
    "uri": _uri,
    "email": _email,
    "hostname": _hostname,
    "ipv4": _ip(4),
    "ipv6": _ip(6),
    "cidr": _cidr,
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uuid": _uuid(),
    "uuid3": _uuid(third="3[0-9a-f]{3}"),
    "uuid4": _uuid(third="4[0-9a-f]{3}", fourth="[89ab][0-9a-f]{3}"),
    "uuid5": _uuid(third="5[0-9a-f]{3}", fourth="[89ab][0-9a-f]{3}"),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _credit_card,
    "ssn": _pattern(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _pattern("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _rgb_color,
    "byte": _byte,
    "password": lambda _text: True,
    "date": _date,
    "duration": _duration,
    "datetime": _date_time,
    "k8sshortname": lambda text: not names.check_dns1123_label(text),
    "k8slongname": lambda text: not names.check_dns1123_subdomain(text),
}
