"""The key file's content: the part of upstream's EncryptionConfiguration that is about AES-GCM. Pure.

    apiVersion: apiserver.config.k8s.io/v1
    kind: EncryptionConfiguration
    resources:
      - resources: [secrets, widgets.example.com]
        providers:
          - aesgcm:
              keys:                       # the first writes, all read
                - {name: "2026-01", secret: <32 bytes in base64>}
          - identity: {}                  # put first, it stores plain values; they can be read in any case

Unsupported settings (other providers, wildcards, shorter keys) are refused by name.
"""

import base64
import binascii
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import yaml

from rota.api.identifiers import GroupResource
from rota.apiserver.encryption.envelope import KEY_BYTES, Key, Keyring, Vault
from rota.kit import errors

API_VERSION: Final = "apiserver.config.k8s.io/v1"
KIND: Final = "EncryptionConfiguration"
#: What is encrypted by default.
DEFAULT_RESOURCES: Final = ("secrets",)
#: Where servers store the keys that they share (see `apiserver.server.cluster_ca`): encrypted like Secrets.
TRUST: Final = "/~trust/"
_REMEDY: Final = "docs/howto/protect.md shows one that works"


class ConfigurationError(errors.UserError):
    """A key file cannot be used."""


class _WireKey(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    secret: str


class _AesGcm(msgspec.Struct, forbid_unknown_fields=True):
    keys: list[_WireKey]


class _Provider(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    aesgcm: _AesGcm | None = None
    identity: dict[str, Any] | None = None


class _Resources(msgspec.Struct, forbid_unknown_fields=True):
    resources: list[str]
    providers: list[_Provider]


class _Wire(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    api_version: str
    kind: str
    resources: list[_Resources]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How some resources are stored."""

    #: As upstream writes them: `secrets`, `deployments.apps`.
    resources: tuple[str, ...]
    #: The first one encrypts.
    keys: tuple[Key, ...]
    #: Whether new values are stored plain; the keys then only decrypt existing values.
    plain: bool = False

    def with_key(self, key: Key) -> "Rule":
        """The same with another key to write with."""
        return replace(self, keys=(key, *self.keys), plain=False)


def parse(text: str, *, source: str) -> tuple[Rule, ...]:
    """Parse the rules of a file; ConfigurationError if it is invalid."""
    try:
        wire = msgspec.convert(yaml.safe_load(text), _Wire)
        if (wire.api_version, wire.kind) != (API_VERSION, KIND):
            raise ValueError(f"it is a {wire.kind} of {wire.api_version}, not an {KIND} of {API_VERSION}")
        rules = tuple(map(_rule, wire.resources))
        named = [resource for rule in rules for resource in rule.resources]
        twice = sorted({resource for resource in named if named.count(resource) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)} occurs more than once")
    except (yaml.YAMLError, msgspec.ValidationError, ValueError) as error:
        why = " ".join(str(error).split())
        raise ConfigurationError(f"{source} is no key file: {why}", _REMEDY) from None
    return rules


def render(rules: tuple[Rule, ...]) -> str:
    """The file for rules."""
    wire = _Wire(API_VERSION, KIND, [_Resources(list(rule.resources), _providers(rule)) for rule in rules])
    text: str = yaml.safe_dump(msgspec.to_builtins(wire), sort_keys=False)
    return text


def vault(rules: tuple[Rule, ...], *, source: str) -> Vault:
    """The keyrings of rules."""
    rings: dict[str, Keyring] = {}
    for rule in rules:
        ring = Keyring(rule.keys, source=source, plain=rule.plain)
        rings |= {prefix(resource): ring for resource in rule.resources}
    if prefix("secrets") in rings:
        rings[TRUST] = rings[prefix("secrets")]
    return Vault(rings)


def prefix(resource: str) -> str:
    """The prefix of a resource's objects in the store."""
    plural, _, group = resource.partition(".")
    return f"/{group or 'core'}/{plural}/"


def resource(prefix: str) -> GroupResource | None:
    """The resource of a prefix; None if it is not one."""
    group, _, plural = prefix.strip("/").partition("/")
    return GroupResource("" if group == "core" else group, plural) if plural else None


def _rule(wire: _Resources) -> Rule:
    for resource in wire.resources:
        if not resource or "*" in resource or "/" in resource:
            raise ValueError(f"{resource!r} does not name one resource, as secrets or widgets.example.com do")
    keys: list[Key] = []
    for provider in wire.providers:
        if (provider.aesgcm is None) == (provider.identity is None):
            raise ValueError("a provider is either aesgcm or identity")
        keys += map(_key, provider.aesgcm.keys if provider.aesgcm is not None else ())
    if not wire.providers:
        raise ValueError(f"{', '.join(wire.resources)} has no provider")
    if len({key.name for key in keys}) < len(keys):
        raise ValueError(f"two keys of {', '.join(wire.resources)} have one name")
    return Rule(resources=tuple(wire.resources), keys=tuple(keys), plain=wire.providers[0].identity is not None)


def _key(wire: _WireKey) -> Key:
    try:
        secret = base64.b64decode(wire.secret, validate=True)
    except binascii.Error:
        raise ValueError(f"the secret of the key {wire.name!r} is not base64 of {KEY_BYTES} bytes") from None
    return Key(wire.name, secret)


def _providers(rule: Rule) -> list[_Provider]:
    wire = [_WireKey(key.name, base64.b64encode(key.secret).decode()) for key in rule.keys]
    sealing = [_Provider(aesgcm=_AesGcm(wire))] if wire else []
    plain = _Provider(identity={})
    return [plain, *sealing] if rule.plain else [*sealing, plain]
