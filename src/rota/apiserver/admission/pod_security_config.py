"""The administrator's configuration of Pod Security admission, from a file in the format of stock servers.

    apiVersion: apiserver.config.k8s.io/v1
    kind: AdmissionConfiguration
    plugins:
    - name: PodSecurity
      configuration:
        apiVersion: pod-security.admission.config.k8s.io/v1
        kind: PodSecurityConfiguration
        defaults: {enforce: baseline, enforce-version: latest}
        exemptions: {usernames: [ci], namespaces: [kube-system], runtimeClasses: [sandbox]}

The PodSecurityConfiguration may also be alone in the file.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import yaml

from rota.api import fields, names, pod_security
from rota.api.fields import FieldError
from rota.apiserver.admission.pod_security import (
    MODES,
    WRONG_LEVEL,
    WRONG_VERSION,
    Configuration,
    Level,
    Levels,
    is_version,
)
from rota.kit import errors

_PLUGIN: Final = "PodSecurity"
_OUTER: Final = ("apiserver.config.k8s.io/v1", "AdmissionConfiguration")
_INNER: Final = "PodSecurityConfiguration"
_VERSIONS: Final = tuple(f"pod-security.admission.config.k8s.io/{one}" for one in ("v1", "v1beta1", "v1alpha1"))


class ConfigurationError(errors.UserError):
    """The configuration of admission cannot be used."""


class _Defaults(msgspec.Struct, forbid_unknown_fields=True, rename="kebab", frozen=True):
    enforce: str = ""
    enforce_version: str = ""
    audit: str = ""
    audit_version: str = ""
    warn: str = ""
    warn_version: str = ""


class _Exemptions(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    usernames: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    runtime_classes: tuple[str, ...] = ()


class _PodSecurity(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    api_version: str
    kind: str
    defaults: _Defaults = _Defaults()
    exemptions: _Exemptions = _Exemptions()


class _Plugin(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str
    configuration: object = None
    path: str = ""


class _Admission(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    api_version: str
    kind: str
    plugins: tuple[_Plugin, ...] = ()


def load(path: Path) -> Configuration:
    """The configuration in a file; ConfigurationError if there is none."""
    try:
        return parse(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError) as error:
        raise ConfigurationError(f"the admission configuration {path} cannot be used: {error}") from None


def parse(document: object) -> Configuration:
    """The configuration in a document; ValueError says what is wrong."""
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind == _INNER:
        return _configuration(document)
    given = msgspec.convert(document, _Admission)
    if (given.api_version, given.kind) != _OUTER:
        raise ValueError(f"it is a {given.kind} of {given.api_version}; write a {_OUTER[1]} of {_OUTER[0]}")
    others = [one.name for one in given.plugins if one.name != _PLUGIN]
    if others:
        raise ValueError(f"the plugin {others[0]} has no configuration here: remove it from the file")
    if not given.plugins:
        return Configuration()
    if len(given.plugins) > 1:
        raise ValueError(f"the plugin {_PLUGIN} is configured twice: merge the entries")
    (plugin,) = given.plugins
    if plugin.path:
        raise ValueError(f"plugins[0].path is not read: write the {_INNER} into plugins[0].configuration")
    return _configuration(plugin.configuration)


def _configuration(document: object) -> Configuration:
    given = msgspec.convert(document, _PodSecurity)
    if given.kind != _INNER or given.api_version not in _VERSIONS:
        raise ValueError(f"it is a {given.kind} of {given.api_version}; write a {_INNER} of {_VERSIONS[0]}")
    wrong = [*_default_errors(given.defaults), *_exemption_errors(given.exemptions)]
    if wrong:
        raise ValueError(fields.aggregate(wrong))
    return Configuration(
        defaults=Levels(*(_level(given.defaults, mode) for mode in MODES)),
        usernames=frozenset(given.exemptions.usernames),
        namespaces=frozenset(given.exemptions.namespaces),
        runtime_classes=frozenset(given.exemptions.runtime_classes),
    )


def _level(defaults: _Defaults, mode: str) -> Level:
    nothing = Level()
    return Level(getattr(defaults, mode) or nothing.name, getattr(defaults, f"{mode}_version") or nothing.version)


def _default_errors(defaults: _Defaults) -> Iterator[FieldError]:
    path = fields.Path("defaults")
    for mode in MODES:
        level = _level(defaults, mode)
        if level.name not in pod_security.LEVELS:
            yield fields.invalid(path.child(mode), level.name, WRONG_LEVEL)
        if not is_version(level.version):
            yield fields.invalid(path.child(f"{mode}-version"), level.version, WRONG_VERSION)


def _exemption_errors(exemptions: _Exemptions) -> Iterator[FieldError]:
    path = fields.Path("exemptions")
    checks = (
        ("namespaces", exemptions.namespaces, names.check_dns1123_label),
        ("runtimeClasses", exemptions.runtime_classes, names.check_dns1123_subdomain),
        ("usernames", exemptions.usernames, lambda one: [] if one else ["username must not be empty"]),
    )
    for name, given, check in checks:
        for number, one in enumerate(given):
            at = path.child(name).index(number)
            wrong = check(one)
            if wrong:
                yield fields.invalid(at, one, ", ".join(wrong))
            elif one in given[:number]:
                yield fields.duplicate(at, one)
