"""Which requests are logged, and in which detail: upstream's audit Policy. Pure.

    apiVersion: audit.k8s.io/v1
    kind: Policy
    omitStages: [ResponseStarted]
    rules:
      - level: None
        nonResourceURLs: ["/healthz*"]
      - level: Request
        resources: [{group: "", resources: ["pods", "pods/*"]}]
      - level: Metadata

The first matching rule decides; a request that no rule matches is not logged. Response bodies are never logged, so the
level RequestResponse is refused.
"""

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import yaml

from rota.apiserver.interfaces import User
from rota.apiserver.routing import Route
from rota.kit import errors

API_VERSION: Final = "audit.k8s.io/v1"
_KIND: Final = "Policy"


class PolicyError(errors.UserError):
    """An audit policy cannot be used."""


class Level(enum.Enum):
    """How much of a request is logged."""

    NONE = "None"
    METADATA = "Metadata"
    REQUEST = "Request"


class Stage(enum.Enum):
    """When an event is logged."""

    #: Accepted because upstream policies have it; nothing is logged at this stage.
    RECEIVED = "RequestReceived"
    #: A stream has begun.
    STARTED = "ResponseStarted"
    COMPLETE = "ResponseComplete"
    #: As `RECEIVED`.
    PANIC = "Panic"


class _GroupResources(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    group: str = ""
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class _Rule(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    level: Level
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[_GroupResources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(name="nonResourceURLs", default=())
    omit_stages: tuple[Stage, ...] = ()
    omit_managed_fields: bool | None = None


class _Wire(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    api_version: str
    kind: str
    rules: tuple[_Rule, ...]
    metadata: dict[str, object] | None = None
    omit_stages: tuple[Stage, ...] = ()
    omit_managed_fields: bool = False


@dataclass(frozen=True, slots=True)
class Ruling:
    """The policy's decision about one request."""

    level: Level
    omitted: frozenset[Stage] = frozenset()
    omits_managed_fields: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The request attributes that rules match."""

    user: User
    verb: str
    #: None for non-resource paths.
    route: Route | None
    path: str


_NOTHING: Final = Ruling(Level.NONE)


class Policy:
    """The rules of one file."""

    def __init__(self, wire: _Wire) -> None:
        self._rules: Final = tuple(
            (
                rule,
                Ruling(
                    rule.level,
                    frozenset(rule.omit_stages + wire.omit_stages),
                    wire.omit_managed_fields if rule.omit_managed_fields is None else rule.omit_managed_fields,
                ),
            )
            for rule in wire.rules
        )

    def ruling(self, asked: Asked) -> Ruling:
        """The decision of the first matching rule."""
        return next((ruling for rule, ruling in self._rules if _matches(rule, asked)), _NOTHING)


def parse(text: str, *, source: str) -> Policy:
    """Parse a policy; PolicyError if it is invalid."""
    try:
        wire = msgspec.convert(yaml.safe_load(text), _Wire)
        if (wire.api_version, wire.kind) != (API_VERSION, _KIND):
            raise ValueError(f"it is a {wire.kind} of {wire.api_version}, not a {_KIND} of {API_VERSION}")
        for rule in wire.rules:
            if rule.non_resource_urls and (rule.resources or rule.namespaces):
                raise ValueError("a rule is about resources or about nonResourceURLs, not about both")
    except (yaml.YAMLError, msgspec.ValidationError, ValueError) as error:
        why = " ".join(str(error).split())
        raise PolicyError(f"{source} is no audit policy: {why}", "docs/howto/protect.md shows one that works") from None
    return Policy(wire)


def load(path: Path) -> Policy:
    """The policy of a file."""
    try:
        text = path.read_text()
    except OSError as error:
        raise PolicyError(f"cannot read the audit policy {path}: {error.strerror}", "name another file") from None
    except UnicodeDecodeError:
        raise PolicyError(f"{path} is no audit policy: it is not text", "name another file") from None
    return parse(text, source=str(path))


def default() -> Policy:
    """Everything except health checks."""
    pages = ("/healthz*", "/livez*", "/readyz*", "/metrics")
    rules = (_Rule(level=Level.NONE, non_resource_urls=pages), _Rule(level=Level.METADATA))
    return Policy(_Wire(api_version=API_VERSION, kind=_KIND, rules=rules))


def _matches(rule: _Rule, asked: Asked) -> bool:
    if rule.users and asked.user.name not in rule.users:
        return False
    if rule.user_groups and not set(rule.user_groups).intersection(asked.user.groups):
        return False
    if rule.verbs and asked.verb not in rule.verbs:
        return False
    if asked.route is not None:
        return not rule.non_resource_urls and _matches_route(rule, asked.route)
    if rule.resources or rule.namespaces:
        return False
    return not rule.non_resource_urls or any(_matches_path(one, asked.path) for one in rule.non_resource_urls)


def _matches_route(rule: _Rule, route: Route) -> bool:
    if rule.namespaces and route.namespace not in rule.namespaces:
        return False
    return not rule.resources or any(_matches_resources(one, route) for one in rule.resources)


def _matches_resources(wanted: _GroupResources, route: Route) -> bool:
    if wanted.group != route.resource.group:
        return False
    if wanted.resource_names and route.name not in wanted.resource_names:
        return False
    return not wanted.resources or any(_names(one, route) for one in wanted.resources)


def _names(wanted: str, route: Route) -> bool:
    """`pods`, `pods/log`, `pods/*` (all subresources), `*/scale`, `*` (everything)."""
    if wanted == "*":
        return True
    plural, _, subresource = wanted.partition("/")
    if plural not in {"*", route.resource.plural}:
        return False
    return subresource == route.subresource or (subresource == "*" and bool(route.subresource))


def _matches_path(wanted: str, path: str) -> bool:
    return path.startswith(wanted[:-1]) if wanted.endswith("*") else path == wanted
