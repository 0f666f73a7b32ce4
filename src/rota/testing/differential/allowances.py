"""Differences that are meant, or that nobody can act on; each with its reason. Everything else is a bug of ours."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.apiserver.admission import process_security, unenforced
from rota.testing.differential import normal
from rota.testing.differential.cases import Reply, Request

#: Admission that needs controllers which Rota does without: they would have to undo it before anything works.
STOCK_ADMISSION_WITHOUT_CONTROLLERS: Final = "StorageObjectInUseProtection,TaintNodesByCondition"

#: For the stock server and for ours: names that no other test uses are exempt from Pod Security.
EXEMPT_NAMESPACE: Final = "exempt-from-pod-security"
#: It is never made for good.
EXEMPT_NEW_NAMESPACE: Final = "new-exempt-from-pod-security"
EXEMPT_RUNTIME: Final = "exempt-from-pod-security"
ADMISSION_CONFIGURATION: Final[dict[str, Any]] = {
    "apiVersion": "apiserver.config.k8s.io/v1",
    "kind": "AdmissionConfiguration",
    "plugins": [
        {
            "name": "PodSecurity",
            "configuration": {
                "apiVersion": "pod-security.admission.config.k8s.io/v1",
                "kind": "PodSecurityConfiguration",
                "exemptions": {
                    "namespaces": [EXEMPT_NAMESPACE, EXEMPT_NEW_NAMESPACE],
                    "runtimeClasses": [EXEMPT_RUNTIME],
                },
            },
        }
    ],
}

#: Warnings that only Rota gives: of what it stores and does not act on, and of what processes do not have.
_OWN_WARNINGS: Final = tuple(
    normal.text(one, namespace="$ns") for one in (*{row.text for row in unenforced.ROWS}, process_security.REMEDY)
)

_OWNED: Final = re.compile(r"\.managedFields\[\d+\]\..*f:([^.]+)(\.|$)")


def differences(request: Request, ours: Reply, theirs: Reply) -> list[str]:
    """Where our reply differs from theirs without a good reason, one line each.

    Warnings of `_OWN_WARNINGS` are left out of ours: a stock cluster has other programs for most of that.
    """
    if any(allowed(request, ours, theirs) for allowed in _WHOLE):
        return []
    mine, other = _body(ours), _body(theirs)
    mine["warnings"] = [one for one in mine["warnings"] if not any(text in one for text in _OWN_WARNINGS)]
    zeros: set[str] = set()
    mine, other = _without_zeros(mine, other, zeros)
    lines = normal.differences(mine, other)
    return [line for line in lines if not ((owned := _OWNED.search(line)) and owned[1] in zeros)]


def _typed_apply(_: Request, ours: Reply, theirs: Reply) -> bool:
    """What cannot be applied is the caller's fault: stock answers 500 to some of it, ours 400."""
    message = str(_value(theirs.body, "message"))
    return theirs.code == 500 and ours.code == 400 and message.startswith(("failed to c", "list element types"))


def _patch_type(request: Request, ours: Reply, theirs: Reply) -> bool:
    """Which patches can be sent is worth saying; stock says only that this one cannot."""
    return request.method == "PATCH" and ours.code == theirs.code == 415


def _not_acceptable(_: Request, ours: Reply, theirs: Reply) -> bool:
    """Stock answers some of these in plain text; ours are always a Status."""
    return ours.code == theirs.code == 406


_WHOLE: Final = (_typed_apply, _patch_type, _not_acceptable)


def _body(reply: Reply) -> dict[str, Any]:
    return {"code": reply.code, "body": reply.body, "warnings": list(reply.warnings)}


def _without_zeros(ours: Any, theirs: Any, zeros: set[str]) -> tuple[Any, Any]:
    """Both without values that are nothing and that only one of them writes: Go writes some fields though empty."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        left, right = dict(ours), dict(theirs)
        for name in {*ours, *theirs}:
            if name in ours and name in theirs:
                if name != "fieldsV1":  # there, nothing means the field itself
                    left[name], right[name] = _without_zeros(ours[name], theirs[name], zeros)
            elif _is_zero(ours.get(name, theirs.get(name))):
                zeros.add(name)
                left.pop(name, None)
                right.pop(name, None)
        return left, right
    if isinstance(ours, Sequence) and isinstance(theirs, Sequence) and not isinstance(ours, str):
        if len(ours) != len(theirs):
            return ours, theirs
        both = [_without_zeros(mine, other, zeros) for mine, other in zip(ours, theirs, strict=True)]
        return [mine for mine, _ in both], [other for _, other in both]
    return ours, theirs


def _is_zero(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_is_zero(part) for part in value.values())
    return value in (None, "", 0, False) or value == []


def _value(body: Any, name: str) -> Any:
    return body.get(name) if isinstance(body, Mapping) else None
