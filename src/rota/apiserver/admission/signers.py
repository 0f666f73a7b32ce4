"""Permissions to approve and to sign certificate requests: the verbs `approve` and `sign` on `signers`.

A signer has a name like `kubernetes.io/kube-apiserver-client`; `kubernetes.io/*` in a role means its whole domain. A
certificate request cannot obtain the group system:masters, even if it is approved.
"""

from typing import Any, ClassVar, Final

from rota.api import errors
from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Attributes, Authorizer, Object, Question
from rota.apiserver.strategies.certificate_requests import decoded
from rota.pki import signing_requests

REQUESTS: Final = GroupResource("certificates.k8s.io", "certificatesigningrequests")
_CLIENT: Final = "kubernetes.io/kube-apiserver-client"
_MASTERS: Final = "system:masters"


class SignerRights:
    """Checks the subresources `approval` and `status` of requests, and the requested subject."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer: Final = authorizer

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """See `Admission.admit`."""
        if at.resource.group_resource != REQUESTS or new is None:
            return
        if old is None:
            _check_groups(at, new)
        elif at.subresource == "approval":
            await self._require(at, "approve", old)
        elif at.subresource == "status" and _certificate(new) != _certificate(old):
            await self._require(at, "sign", old)

    async def _require(self, at: Attributes, verb: str, request: Object) -> None:
        signer = str(request["spec"].get("signerName", ""))
        domain = signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            asked = Question(user=at.user, verb=verb, group=REQUESTS.group, resource="signers", name=name)
            if (await self._authorizer.authorize(asked)).allowed:
                return
        why = f'user not permitted to {verb} requests with signerName "{signer}"'
        raise errors.forbidden(REQUESTS, at.name, why)


def _check_groups(at: Attributes, request: Object) -> None:
    spec: dict[str, Any] = request.get("spec") or {}
    if spec.get("signerName") != _CLIENT:
        return
    try:
        wanted = signing_requests.read(decoded(spec.get("request") or ""))
    except signing_requests.NotARequest:
        return  # validation reports it
    if _MASTERS in wanted.subject.organizations:
        why = f"use of {_CLIENT} signer with {_MASTERS} group is not allowed"
        raise errors.forbidden(REQUESTS, at.name or request["metadata"].get("name", ""), why)


def _certificate(request: Object) -> str:
    return str((request.get("status") or {}).get("certificate") or "")
