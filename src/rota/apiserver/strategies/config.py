"""The strategies of ConfigMap and Secret: keys, sizes, and immutability."""

import base64
from collections.abc import Mapping
from typing import Final

from rota.api import fields, names
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks
from rota.apiserver.strategies.generic import GenericStrategy

_MOST_BYTES: Final = 1024 * 1024
_IMMUTABLE: Final = "field is immutable when `immutable` is set"
_DATA: Final = fields.Path("data")
#: Required keys of secrets of well-known types.
_DEMANDED: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_ACCOUNT: Final = "kubernetes.io/service-account.name"


class ConfigMapStrategy(GenericStrategy):
    """ConfigMaps."""

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Keys and size."""
        return super().validate_create(obj, at) + _validate_config(obj)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Keys and size, and that it is not immutable."""
        found = super().validate_update(new, old, at) + _validate_frozen(new, old, ("data", "binaryData"))
        return found + _validate_config(new)


class SecretStrategy(GenericStrategy):
    """Secrets; `stringData` is write-only and becomes `data`."""

    def default(self, obj: Object, /) -> None:
        """Opaque; plain strings are encoded."""
        if not obj.get("type"):
            obj["type"] = "Opaque"
        data = obj.get("data") or {}
        plain = obj.pop("stringData", None)
        if plain:
            obj["data"] = {**data, **{key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}}

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Keys, size, and the required keys of the type."""
        return super().validate_create(obj, at) + _validate_secret(obj)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """The same, and that type and immutable data do not change."""
        found = super().validate_update(new, old, at)
        found += checks.immutable(new.get("type"), old.get("type"), fields.Path("type"))
        return found + _validate_frozen(new, old, ("data",)) + _validate_secret(new)


def _validate_config(obj: Object) -> list[fields.FieldError]:
    plain, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    found: list[fields.FieldError] = []
    for path, entries in ((_DATA, plain), (fields.Path("binaryData"), binary)):
        for key in entries:
            found += checks.messages(names.check_config_key(key), key, path.key(key))
    found += [
        fields.invalid(_DATA.key(key), key, "duplicate of key present in binaryData") for key in plain if key in binary
    ]
    size = sum(len(value.encode()) for value in plain.values())
    size += sum(len(base64.b64decode(value)) for value in binary.values())
    if size > _MOST_BYTES:
        found.append(fields.too_long(fields.ROOT, _MOST_BYTES))
    return found


def _validate_secret(obj: Object) -> list[fields.FieldError]:
    data = obj.get("data") or {}
    found: list[fields.FieldError] = []
    for key in data:
        found += checks.messages(names.check_config_key(key), key, _DATA.key(key))
    if sum(len(base64.b64decode(value)) for value in data.values()) > _MOST_BYTES:
        found.append(fields.too_long(_DATA, _MOST_BYTES))
    kind = obj.get("type", "")
    found += [fields.required(_DATA.key(key)) for key in _DEMANDED.get(kind, ()) if key not in data]
    if kind == "kubernetes.io/basic-auth" and not data.keys() & {"username", "password"}:
        found += [fields.required(_DATA.key(key)) for key in ("username", "password")]
    if kind == "kubernetes.io/service-account-token" and not (obj["metadata"].get("annotations") or {}).get(_ACCOUNT):
        found.append(fields.required(fields.Path("metadata").child("annotations").key(_ACCOUNT)))
    return found


def _validate_frozen(new: Object, old: Object, parts: tuple[str, ...]) -> list[fields.FieldError]:
    if not old.get("immutable"):
        return []
    found = [] if new.get("immutable") else [fields.forbidden(fields.Path("immutable"), _IMMUTABLE)]
    changed = [part for part in parts if (new.get(part) or {}) != (old.get(part) or {})]
    return found + [fields.forbidden(fields.Path(part), _IMMUTABLE) for part in changed]
