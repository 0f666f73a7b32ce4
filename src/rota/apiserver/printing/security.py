"""Role bindings and certificate signing requests."""

from typing import Final

from rota.api.identifiers import GroupResource
from rota.apiserver.printing import durations, texts
from rota.apiserver.printing.columns import NONE, Cells, Object, Printer, Printers, age, at, columns, items, name


def _binding(obj: Object, now: float) -> Cells:
    subjects = items(obj, "subjects")
    accounts = (
        f"{one.get('namespace') or ''}/{one.get('name') or ''}"
        for one in subjects
        if one.get("kind") == "ServiceAccount"
    )
    people = [
        ", ".join(one.get("name") or "" for one in subjects if one.get("kind") == kind) for kind in ("User", "Group")
    ]
    role = f"{at(obj, 'roleRef', 'kind') or ''}/{at(obj, 'roleRef', 'name') or ''}"
    return [name(obj), role, age(obj, now), *people, ", ".join(accounts)]


def _signing_request(obj: Object, now: float) -> Cells:
    seconds = at(obj, "spec", "expirationSeconds")
    return [
        name(obj),
        age(obj, now),
        at(obj, "spec", "signerName") or NONE,
        at(obj, "spec", "username") or "",
        NONE if seconds is None else durations.human(seconds),
        _signing_status(obj),
    ]


def _signing_status(obj: Object) -> str:
    types = {one.get("type") for one in items(obj, "status", "conditions")}
    words = ["Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"]
    if "Failed" in types:
        words.append("Failed")
    if at(obj, "status", "certificate"):
        words.append("Issued")
    return ",".join(words)


def _trust_bundle(obj: Object, now: float) -> Cells:
    return [name(obj), at(obj, "spec", "signerName") or NONE]


def _pod_certificate(obj: Object, now: float) -> Cells:
    states = ["Pending"]
    states += [one["type"] for one in items(obj, "status", "conditions") if one.get("type") in _CERTIFICATE_STATES]
    keys = ("podName", "serviceAccountName", "nodeName", "signerName")
    annotations = texts.labels(at(obj, "spec", "unverifiedUserAnnotations"))
    return [name(obj), *(at(obj, "spec", key) or "" for key in keys), states[-1], annotations]


_CERTIFICATE_STATES: Final = frozenset({"Issued", "Denied", "Failed"})

_BINDING: Final = Printer(
    columns=columns("""
        Name            | string name | The name of the binding.
        Role            | string      | The role that it gives.
        Age             | string      | How long the binding has existed.
        Users           | string wide | The users who get it.
        Groups          | string wide | The groups that get it.
        ServiceAccounts | string wide | The service accounts that get it.
    """),
    cells=_binding,
)

PRINTERS: Final[Printers] = {
    GroupResource("rbac.authorization.k8s.io", "rolebindings"): _BINDING,
    GroupResource("rbac.authorization.k8s.io", "clusterrolebindings"): _BINDING,
    GroupResource("certificates.k8s.io", "certificatesigningrequests"): Printer(
        columns=columns("""
            Name              | string name | The name of the request.
            Age               | string      | How long the request has existed.
            SignerName        | string      | Who is asked to sign.
            Requestor         | string      | Who asks.
            RequestedDuration | string      | How long the certificate should be valid.
            Condition         | string      | What has become of the request.
        """),
        cells=_signing_request,
    ),
    GroupResource("certificates.k8s.io", "clustertrustbundles"): Printer(
        columns=columns("""
            Name       | string name | The name of the bundle.
            SignerName | string      | Whose certificates it lets one trust.
        """),
        cells=_trust_bundle,
    ),
    GroupResource("certificates.k8s.io", "podcertificaterequests"): Printer(
        columns=columns("""
            Name                      | string name | The name of the request.
            PodName                   | string      | The pod that asks.
            ServiceAccountName        | string      | The account of the pod.
            NodeName                  | string      | The node of the pod.
            SignerName                | string      | Who is asked to sign.
            State                     | string      | What has become of the request.
            UnverifiedUserAnnotations | string      | What the pod says about itself.
        """),
        cells=_pod_certificate,
    ),
}
