"""Kubernetes' libraries at run time: regular expressions, URLs, quantities, addresses, formats, versions."""

import functools
import ipaddress
import re
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, Final

from rota.api import names, quantities
from rota.api.cel import ip_errors, types
from rota.api.cel.operators import Function
from rota.api.cel.values import NONE, EvaluationError, Optional, checked_int, no_overload
from rota.api.quantities import Quantity, QuantityError
from rota.api.re2_matcher import PatternError, compile_finder

_MOST_INT: Final = 2**63
_NANO: Final = 10**9
_LINK_LOCAL_MULTICAST: Final[Mapping[int, ipaddress.IPv4Network | ipaddress.IPv6Network]] = {
    4: ipaddress.ip_network("224.0.0.0/24"),
    6: ipaddress.ip_network("ff02::/16"),
}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise no_overload(value)
    return value


def _find(text: Any, pattern: Any) -> str:
    found = _find_all(text, pattern, 1)
    return found[0] if found else ""


def _find_all(text: Any, pattern: Any, count: Any = -1) -> list[str]:
    try:
        return compile_finder(_text(pattern)).find(_text(text), count)
    except PatternError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


class Url:
    """A parsed URL."""

    __slots__ = ("_parts", "text")
    cel_type: Final = types.URL

    def __init__(self, text: str) -> None:
        self.text: Final = text
        self._parts: Final = _parsed(text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Url) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def scheme(self) -> str:
        """Before the colon."""
        return self._parts.scheme

    @property
    def host(self) -> str:
        """Host and port."""
        return self._parts.netloc.rpartition("@")[2]

    @property
    def hostname(self) -> str:
        """The host without brackets and port."""
        host = self.host
        if host.startswith("["):
            return host[1:].partition("]")[0]
        return host.rpartition(":")[0] if ":" in host else host

    @property
    def port(self) -> str:
        """The port's digits."""
        host = self.host.rpartition("]")[2]
        return host.rpartition(":")[2] if ":" in host else ""

    @property
    def path(self) -> str:
        """The path with its escapes."""
        return urllib.parse.quote(self._parts.path, safe="/%:@!$&'()*+,;=~-._[]")

    @property
    def query(self) -> dict[str, list[str]]:
        """All values by name."""
        found: dict[str, list[str]] = {}
        for key, value in urllib.parse.parse_qsl(self._parts.query, keep_blank_values=True, max_num_fields=10_000):
            found.setdefault(key, []).append(value)
        return found


def _parsed(text: str) -> urllib.parse.SplitResult:
    why = f'parse "{text}"'
    if not text:
        raise EvaluationError(f"{why}: empty url")
    if any(ord(one) < 32 or ord(one) == 127 for one in text):
        raise EvaluationError(f"{why}: net/url: invalid control character in URL")
    scheme, colon, rest = text.partition(":")
    is_scheme = bool(colon) and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme) is not None
    if colon and not is_scheme and "/" not in scheme and scheme == "":
        raise EvaluationError(f"{why}: missing protocol scheme")
    if not text.startswith("/") and not (is_scheme and rest.startswith("/")):
        raise EvaluationError(f"{why}: invalid URI for request")
    try:
        found = urllib.parse.urlsplit(text, allow_fragments=False)
    except ValueError:
        raise EvaluationError(f"{why}: missing ']' in host") from None
    host = found.netloc.rpartition("@")[2]
    port = host.rpartition("]")[2].partition(":")
    if port[1] and port[2] and not port[2].isdigit():
        raise EvaluationError(f'{why}: invalid port ":{port[2]}" after host')
    if " " in host:
        raise EvaluationError(f'{why}: invalid character " " in host name')
    if bad := re.search(r"%(?![0-9a-fA-F]{2}).{0,2}", found.path):
        raise EvaluationError(f'{why}: invalid URL escape "{bad.group()}"')
    return found


def _url(text: Any) -> Url:
    try:
        return Url(_text(text))
    except EvaluationError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


def _quantity(text: Any) -> Quantity:
    try:
        return quantities.parse(_text(text))
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


def _amount(value: Any) -> int:
    """The quantity in billionths."""
    if not isinstance(value, Quantity):
        raise no_overload(value)
    return value.nanos


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


def _as_integer(value: Any) -> int:
    nanos = _amount(value)
    if nanos % _NANO or not -_MOST_INT <= nanos // _NANO < _MOST_INT:
        raise EvaluationError("cannot convert value to integer")
    return nanos // _NANO


def _operand(value: Any) -> Quantity:
    return quantities.from_value(checked_int(value)) if type(value) is int else value


class Address:
    """An IP address."""

    __slots__ = ("ip",)
    cel_type: Final = types.IP
    cel_text: Final = True

    def __init__(self, ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
        self.ip: Final = ip

    @property
    def cost_size(self) -> int:
        """The bytes of the address."""
        return len(self.ip.packed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self.ip == other.ip

    def __hash__(self) -> int:
        return hash(self.ip)

    def __str__(self) -> str:
        return str(self.ip)


class Network:
    """A CIDR: an address and the length of its prefix; the address keeps its host bits."""

    __slots__ = ("interface",)
    cel_type: Final = types.CIDR
    cel_text: Final = True

    def __init__(self, interface: ipaddress.IPv4Interface | ipaddress.IPv6Interface) -> None:
        self.interface: Final = interface

    @property
    def cost_size(self) -> int:
        """The bytes of the address."""
        return len(self.interface.ip.packed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and self.interface == other.interface

    def __hash__(self) -> int:
        return hash(self.interface)

    def __str__(self) -> str:
        return str(self.interface)


def _ip(value: Any) -> Address:
    if isinstance(value, Network):
        return Address(value.interface.ip)
    text = _text(value)
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        raise EvaluationError(
            f'IP Address "{text}" parse error during conversion from string: {ip_errors.why(text)}'
        ) from None
    if "%" in text:
        raise EvaluationError(f'IP address "{text}" with zone value is not allowed')
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        raise EvaluationError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return Address(found)


def _cidr(value: Any) -> Network:
    text = _text(value)
    address, slash, prefix = text.partition("/")
    if not slash or not prefix.isdigit() or (len(prefix) > 1 and prefix.startswith("0")):
        why = "no '/'" if not slash else f'bad bits after slash: "{prefix}"'
        raise EvaluationError(
            f'network address parse error during conversion from string: netip.ParsePrefix("{text}"): {why}'
        )
    try:
        found = ipaddress.ip_interface(f"{_ip(address)}/{prefix}")
    except (ValueError, EvaluationError):
        raise EvaluationError(
            f'network address parse error during conversion from string: netip.ParsePrefix("{text}"): '
            f'ParseAddr("{address}"): unable to parse IP'
        ) from None
    return Network(found)


def _parses(parser: Callable[..., Any]) -> Function:
    def check(*args: Any) -> bool:
        _text(args[0])
        try:
            parser(*args)
        except EvaluationError:
            return False
        return True

    return check


def _canonical(text: Any) -> bool:
    return bool(str(_ip(_text(text))) == text)


def _operand_of(parser: Callable[[Any], Any], text: Any) -> Any:
    """A text that is used as an address: an invalid one is a value of the wrong type."""
    try:
        return parser(text)
    except EvaluationError:
        raise no_overload(text) from None


def _contains_ip(network: Any, address: Any) -> bool:
    ip = (address if isinstance(address, Address) else _operand_of(_ip, address)).ip
    net = network.interface.network
    return bool(ip.version == net.version and ip in net)


def _contains_cidr(network: Any, other: Any) -> bool:
    inner = (other if isinstance(other, Network) else _operand_of(_cidr, other)).interface.network
    net = network.interface.network
    return bool(inner.version == net.version and inner.subnet_of(net))


class Format:
    """A named format of strings."""

    __slots__ = ("check", "name")
    cel_type: Final = types.FORMAT

    def __init__(self, name: str, check: Callable[[str], list[str]]) -> None:
        self.name: Final = name
        self.check: Final = check


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    return lambda text: check(f"{text[:-1]}a" if text.endswith("-") else text)


def _uri(text: str) -> list[str]:
    try:
        _parsed(text)
    except EvaluationError as error:
        return [str(error)]
    return []


def _like(pattern: str, text: str) -> Callable[[str], list[str]]:
    compiled = re.compile(pattern)
    return lambda value: [] if compiled.fullmatch(value) else [text]


FORMATS: Final = {
    name: Format(name, check)
    for name, check in {
        "dns1123Label": names.check_dns1123_label,
        "dns1123Subdomain": names.check_dns1123_subdomain,
        "dns1035Label": names.check_dns1035_label,
        "qualifiedName": names.check_label_key,
        "dns1123LabelPrefix": _prefix(names.check_dns1123_label),
        "dns1123SubdomainPrefix": _prefix(names.check_dns1123_subdomain),
        "dns1035LabelPrefix": _prefix(names.check_dns1035_label),
        "labelValue": names.check_label_value,
        "uri": _uri,
        "uuid": _like(r"(?i)[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", "does not match the UUID format"),
        "byte": _like(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", "invalid base64"),
        "date": _like(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])", "invalid date"),
        "datetime": _like(
            r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])[Tt](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)",
            "invalid datetime",
        ),
    }.items()
}  # fmt: skip


def _validate(one: Any, text: Any) -> Optional:
    if not isinstance(one, Format):
        raise no_overload(one)
    found = one.check(_text(text))
    return Optional(found, has=True) if found else NONE


def _named(name: Any) -> Optional:
    found = FORMATS.get(_text(name))
    return Optional(found, has=True) if found is not None else NONE


_SEMVER: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)


class Semver:
    """A semantic version; build metadata does not count."""

    __slots__ = ("key", "numbers")
    cel_type: Final = types.SEMVER

    def __init__(self, text: str) -> None:
        found = _SEMVER.fullmatch(text)
        if found is None or any(len(found[number]) > 19 for number in (1, 2, 3)):
            raise EvaluationError(
                "No Major.Minor.Patch elements found"
                if text.count(".") < 2
                else f'Invalid character(s) found in version "{text}"'
            )
        self.numbers: Final = (int(found[1]), int(found[2]), int(found[3]))
        parts = tuple((0, int(one), "") if one.isdigit() else (1, 0, one) for one in (found[4] or "").split(".") if one)
        self.key: Final = (self.numbers, not parts, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _semver(text: Any, normalise: Any = False) -> Semver:
    text = _text(text)
    if normalise:
        text = text.removeprefix("v")
        core, mark, rest = re.match(r"([0-9.]*)([-+]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
        numbers = [one.lstrip("0") or "0" if one else one for one in core.split(".")]
        numbers += ["0"] * (3 - len(numbers))
        text = ".".join(numbers) + mark + rest
    return Semver(text)


def _versions(one: Any, other: Any) -> int:
    if isinstance(one, Semver) and isinstance(other, Semver):
        return _sign((one.key > other.key) - (one.key < other.key))
    first, second = _amount(one), _amount(other)
    return _sign(first - second)


KUBERNETES: Final[Mapping[str, Function]] = {
    "find": _find, "findAll": _find_all,
    "url": _url, "isURL": _parses(_url), "getScheme": lambda one: one.scheme, "getHost": lambda one: one.host,
    "getHostname": lambda one: one.hostname, "getPort": lambda one: one.port,
    "getEscapedPath": lambda one: one.path, "getQuery": lambda one: one.query,
    "quantity": _quantity, "isQuantity": _parses(_quantity), "sign": lambda one: _sign(_amount(one)),
    "isGreaterThan": lambda one, other: _versions(one, other) > 0,
    "isLessThan": lambda one, other: _versions(one, other) < 0, "compareTo": _versions,
    "asApproximateFloat": lambda one: _amount(one) / _NANO, "asInteger": _as_integer,
    "isInteger": lambda one: _amount(one) % _NANO == 0 and -_MOST_INT <= _amount(one) // _NANO < _MOST_INT,
    "add": lambda one, other: one + _operand(other), "sub": lambda one, other: one - _operand(other),
    "ip": _ip, "isIP": _parses(_ip), "ip.isCanonical": _canonical, "family": lambda one: one.ip.version,
    "isUnspecified": lambda one: one.ip.is_unspecified, "isLoopback": lambda one: one.ip.is_loopback,
    "isLinkLocalMulticast": lambda one: one.ip in _LINK_LOCAL_MULTICAST[one.ip.version],
    "isLinkLocalUnicast": lambda one: one.ip.is_link_local,
    "isGlobalUnicast": lambda one: not (
        one.ip.is_unspecified or one.ip.is_loopback or one.ip.is_multicast or one.ip.is_link_local
        or str(one.ip) == "255.255.255.255"
    ),
    "cidr": _cidr, "isCIDR": _parses(_cidr), "containsIP": _contains_ip, "containsCIDR": _contains_cidr,
    "prefixLength": lambda one: one.interface.network.prefixlen,
    "masked": lambda one: Network(ipaddress.ip_interface(str(one.interface.network))),
    "validate": _validate, "format.named": _named,
    **{f"format.{name}": functools.partial(FORMATS.__getitem__, name) for name in FORMATS},
    "semver": _semver, "isSemver": _parses(_semver), "major": lambda one: one.numbers[0],
    "minor": lambda one: one.numbers[1], "patch": lambda one: one.numbers[2],
}  # fmt: skip
