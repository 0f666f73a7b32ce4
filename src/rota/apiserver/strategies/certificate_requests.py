"""The strategy of CertificateSigningRequests: the server sets the requester, and each subresource changes its own part.

For a request of a worker's serving certificate the server also records the client's address (`CLIENT_ADDRESS`).

An update of the main resource changes metadata only. `approval` adds the conditions Approved and Denied, `status` adds
the certificate and the condition Failed; these three conditions are never removed.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.api import fields, gotext, names, times
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks
from rota.apiserver.strategies.generic import GenericStrategy, take
from rota.pki import certificates, keys, signing_requests

#: The extra of a request for a serving certificate that has the client's address.
CLIENT_ADDRESS: Final = "rota.dev/client-address"
_SERVING: Final = "kubernetes.io/kubelet-serving"
LEGACY_SIGNER: Final = "kubernetes.io/legacy-unknown"
_USAGES: Final = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)
_BLOCKS: Final = re.compile(rb"-----BEGIN ([^-\n]+)-----")
_LEAST_S: Final = 600
_APPROVALS: Final = ("Approved", "Denied")
_LASTING: Final = ("Approved", "Denied", "Failed")
_SPEC: Final = fields.Path("spec")
_STATUS: Final = fields.Path("status")
_CONDITIONS: Final = _STATUS.child("conditions")
_SIGNER_FORM: Final = "must be a fully qualified domain and path of the form 'example.com/signer-name'"


class CertificateRequestStrategy(GenericStrategy):
    """CertificateSigningRequests."""

    demands_required_fields = False

    def prepare_create(self, obj: Object, at: Attributes, /) -> None:
        """Set the requester from the authenticated user."""
        obj["status"] = {}
        spec = obj.setdefault("spec", {})
        for name in ("username", "uid", "groups", "extra"):
            spec.pop(name, None)
        spec["username"] = at.user.name
        if at.user.uid:
            spec["uid"] = at.user.uid
        if at.user.groups:
            spec["groups"] = list(at.user.groups)
        extra = {name: list(values) for name, values in at.user.extra.items() if name != CLIENT_ADDRESS}
        if at.address and spec.get("signerName") == _SERVING:
            extra[CLIENT_ADDRESS] = [at.address]
        if extra:
            spec["extra"] = extra

    def prepare_update(self, new: Object, old: Object, at: Attributes, /) -> None:
        """Restore what this subresource does not change."""
        take(new, old, "spec")
        if not at.subresource:
            take(new, old, "status")
            return
        status, before = new.setdefault("status", {}), old.get("status") or {}
        if at.subresource == "approval":
            take(status, before, "certificate")
        _date_conditions(status.get("conditions") or (), before.get("conditions") or (), at.now)

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """The request, its signer and usages."""
        return super().validate_create(obj, at) + _validate_spec(obj.get("spec") or {})

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """The same, and its conditions and certificate."""
        found = super().validate_update(new, old, at) + _validate_spec(new.get("spec") or {})
        status, before = new.get("status") or {}, old.get("status") or {}
        found += _validate_conditions(status.get("conditions") or ())
        found += _validate_steps(status, before, approves=at.subresource == "approval")
        if status.get("certificate") and status.get("certificate") != before.get("certificate"):
            found += _validate_certificate(status["certificate"])
        return found


def decoded(value: str) -> bytes:
    """A field of bytes; empty if it is not base64."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _validate_spec(spec: Mapping[str, Any]) -> list[fields.FieldError]:
    found = _validate_request(spec.get("request"))
    found += _validate_usages(spec.get("usages") or ())
    found += _validate_signer(spec.get("signerName") or "")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _LEAST_S:
        why = "may not specify a duration less than 600 seconds (10 minutes)"
        found.append(fields.invalid(_SPEC.child("expirationSeconds"), seconds, why))
    return found


def _validate_request(request: str | None) -> list[fields.FieldError]:
    try:
        signing_requests.read(decoded(request or ""))
    except signing_requests.NotARequest as error:
        return [fields.invalid(_SPEC.child("request"), request, str(error))]
    return []


def _validate_usages(usages: Sequence[str]) -> list[fields.FieldError]:
    path = _SPEC.child("usages")
    if not usages:
        return [fields.required(path)]
    found: list[fields.FieldError] = []
    for position, usage in enumerate(usages):
        if usage not in _USAGES:
            found.append(fields.not_supported(path.index(position), usage, _USAGES))
        elif usage in usages[:position]:
            found.append(fields.duplicate(path.index(position), usage))
    return found


def _validate_signer(name: str) -> list[fields.FieldError]:
    path = _SPEC.child("signerName")
    if not name:
        return [fields.required(path)]
    if name == LEGACY_SIGNER:
        return [fields.invalid(path, name, "the legacy signerName is not allowed via this API version")]
    domain, slash, rest = name.partition("/")
    if not slash or not rest or "." not in domain or "/" in rest:
        return [fields.invalid(path, name, _SIGNER_FORM)]
    found: list[fields.FieldError] = []
    for label in domain.split("."):
        found += _validate_label(label, names.check_dns1123_label(label), domain, path)
    for label in rest.split("."):
        found += _validate_label(label, names.check_dns1123_subdomain(label), rest, path)
    return found


def _validate_label(label: str, complaints: Sequence[str], whole: str, path: fields.Path) -> list[fields.FieldError]:
    errors_found = [f"validating label {gotext.quote(label)}: {complaint}" for complaint in complaints]
    return checks.messages(errors_found, whole, path)


def _validate_conditions(conditions: Sequence[Mapping[str, Any]]) -> list[fields.FieldError]:
    found: list[fields.FieldError] = []
    seen: set[str] = set()
    for position, condition in enumerate(conditions):
        path, kind = _CONDITIONS.index(position), condition.get("type", "")
        if not kind:
            found.append(fields.required(path.child("type")))
        elif kind in seen:
            found.append(fields.duplicate(path.child("type"), kind))
        seen.add(kind)
        allowed = ("True",) if kind in _LASTING else ("False", "True", "Unknown")
        found += checks.one_of(condition.get("status"), allowed, path.child("status"))
    if seen.issuperset(_APPROVALS):
        last = [one.get("type") for one in conditions if one.get("type") in _APPROVALS][-1]
        found.append(fields.invalid(_CONDITIONS, last, "Approved and Denied conditions are mutually exclusive"))
    return found


def _validate_steps(status: Mapping[str, Any], before: Mapping[str, Any], *, approves: bool) -> list[fields.FieldError]:
    new, old = _types(status), _types(before)
    found = [
        fields.forbidden(_CONDITIONS, f"updates may not remove a condition of type {gotext.quote(kind)}")
        for kind in _LASTING
        if kind in old and kind not in new
    ]
    if not approves:
        found += [
            fields.forbidden(_CONDITIONS, f"updates may not add a condition of type {gotext.quote(kind)}")
            for kind in _APPROVALS
            if kind in new and kind not in old
        ]
    return found


def _validate_certificate(value: str) -> list[fields.FieldError]:
    path, pem = _STATUS.child("certificate"), decoded(value)
    kinds = [kind.decode(errors="replace") for kind in _BLOCKS.findall(pem)]
    others = [kind for kind in kinds if kind != "CERTIFICATE"]
    if others:
        why = f"only CERTIFICATE PEM blocks are allowed, found {gotext.quote(others[0])}"
    elif not kinds:
        why = "must contain at least one CERTIFICATE PEM block"
    else:
        try:
            certificates.read_pem(pem, source="it")
        except keys.KeyMaterialError as error:
            why = error.message
        else:
            return []
    return [fields.invalid(path, "<certificate data>", why)]


def _types(status: Mapping[str, Any]) -> set[str]:
    return {one.get("type", "") for one in status.get("conditions") or ()}


def _date_conditions(conditions: Sequence[dict[str, Any]], before: Sequence[Mapping[str, Any]], now: float) -> None:
    """Set the transition and update times of conditions."""
    known = {one.get("type"): one for one in before}
    for condition in conditions:
        old = known.get(condition.get("type"))
        condition.setdefault("lastUpdateTime", times.format_time(now))
        if old is not None and old.get("status") == condition.get("status"):
            condition["lastTransitionTime"] = old.get("lastTransitionTime") or times.format_time(now)
        elif not condition.get("lastTransitionTime"):
            condition["lastTransitionTime"] = times.format_time(now)
