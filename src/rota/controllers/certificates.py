"""Approves workers' CertificateSigningRequests, signs approved ones, and deletes old ones.

A client certificate request is approved automatically if it has the form of a worker's and a SubjectAccessReview allows
it: the first one with a join token (`nodeclient`), or renewal by the worker itself (`selfnodeclient`), as upstream.
Unlike upstream, a request with a join token does not get the name of an existing worker, unless it is signed with that
worker's key. A serving certificate request is approved automatically if the worker asks for its own name and only for
the address that the request came from (`certificate_signer.may_serve`). All other requests wait for manual approval.
"""

import base64
from collections.abc import Collection
from typing import Any, Final

from rota.api import errors, meta, times
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.controllers import certificate_signer
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.pki import pinning, signing_requests
from rota.pki.authorities import DAY_S, YEAR_S, Authority
from rota.pki.certificates import IpAddress
from rota.pki.signing_requests import NotARequest, Request

log = logs.get(__name__)

REQUESTS: Final = ("certificates.k8s.io", "v1", "certificatesigningrequests")
_REVIEWS: Final = ("authorization.k8s.io", "v1", "subjectaccessreviews")
#: The longest lifetime of a certificate.
LIFETIME_S: Final = YEAR_S
#: Lifetime of a worker's certificate, which the worker renews.
WORKER_LIFETIME_S: Final = 7 * DAY_S
#: How long after its first certificate a worker may take to create its node.
_REGISTERING_S: Final = 60.0
NODES: Final = ("", "v1", "nodes")
#: How long requests are kept, by their state.
_DONE_S: Final = 3600.0
_PENDING_S: Final = 24 * 3600.0


class CertificateController:
    """Approves, signs and deletes CertificateSigningRequests."""

    def __init__(
        self,
        client: Client,
        authority: Authority,
        *,
        clock: Clock,
        rng: Rng,
        reserved: Collection[IpAddress] = (),
        metrics: Metrics | None = None,
    ) -> None:
        """`reserved` are addresses of masters, which no worker's certificate may contain."""
        self._reserved: Final = reserved
        self._client: Final = client
        self._authority: Final = authority
        self._clock: Final = clock
        self._frame: Final = Reconciler[Key](
            client, "certificates", self._process, clock=clock, rng=rng, metrics=metrics
        )
        self._requests: Final = self._frame.follow(REQUESTS, self._changed)

    async def run(self) -> None:
        """Run until cancelled."""
        await self._frame.run()

    def _changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        if new is not None:
            self._frame.queue.add(key)

    async def _process(self, key: Key) -> float | None:
        request = self._requests.cache.get(key.name)
        if request is None or meta.is_deleting(request):
            return None
        try:
            left_s = _due(request) - self._clock.now()
            if left_s <= 0:
                await self._client.delete(REQUESTS, key.name, uid=meta.uid(request))
                return None
            await self._advance(request)
        except (errors.NotFound, errors.Conflict):
            return None  # a conflicting write: the watch reports the new state
        return left_s

    async def _advance(self, request: Object) -> None:
        """Take the next step of a request, if this controller is responsible for it."""
        states = _states(request)
        spec, status = request["spec"], request.get("status") or {}
        if (
            states & {"Denied", "Failed"}
            or status.get("certificate")
            or spec["signerName"] not in certificate_signer.SIGNERS
        ):
            return
        check, purpose = certificate_signer.SIGNERS[spec["signerName"]]
        try:
            wanted = signing_requests.read(base64.b64decode(spec["request"]))
            flaw = check(wanted, spec.get("usages") or ())
        except NotARequest as error:
            await self._mark(request, "Failed", reason="SignerValidationFailure", message=str(error), door="status")
            return
        if "Approved" not in states:
            if not flaw:
                await self._judge(request, wanted)
            return
        if flaw:
            await self._mark(request, "Failed", reason="SignerValidationFailure", message=flaw, door="status")
            return
        longest_s = LIFETIME_S if spec["signerName"] == certificate_signer.CLIENT else WORKER_LIFETIME_S
        lifetime_s = min(spec.get("expirationSeconds") or longest_s, longest_s)
        certificate = self._authority.sign(
            wanted.public_key,
            wanted.subject,
            purpose=purpose,
            now=self._clock.now(),
            lifetime_s=lifetime_s,
            names=wanted.names,
        )
        signed = {**request, "status": {**status, "certificate": base64.b64encode(certificate).decode()}}
        await self._client.update(REQUESTS, signed, subresource="status")
        log.info("certificate signed", request=meta.name(request), user=wanted.subject.common_name)

    async def _judge(self, request: Object, wanted: Request) -> None:
        spec, why = request["spec"], ""
        own = spec.get("username") == wanted.subject.common_name
        if spec["signerName"] == certificate_signer.WORKER_CLIENT:
            if own and await self._may(spec, "selfnodeclient"):
                why = "Renewed for the worker that asks: it may have its own client certificate."
            elif await self._may(spec, "nodeclient"):
                if refusal := await self._taken(request, wanted):
                    await self._mark(request, "Denied", reason="NameTaken", message=refusal, door="approval")
                    return
                why = "Issued to a newcomer that may ask for a worker's client certificate."
        elif spec["signerName"] == certificate_signer.WORKER_SERVING and own:
            come_from = (spec.get("extra") or {}).get(certificate_signer.CLIENT_ADDRESS) or ()
            if certificate_signer.may_serve(wanted, come_from, reserved=self._reserved):
                why = "Issued to the worker that asks, for the address that it asks from."
        if why:
            await self._mark(request, "Approved", reason="AutoApproved", message=why, door="approval")
        else:
            log.info(
                "certificate request needs manual approval", request=meta.name(request), user=spec.get("username", "")
            )

    async def _taken(self, request: Object, wanted: Request) -> str:
        """Why a new worker does not get this name; empty if the name is free, or its present holder signed the request.

        A join token allows its bearer to become a new worker, not to replace an existing one. Only the holder of the
        existing worker's key can have signed the request with it, even if its certificate has expired.
        """
        name = wanted.subject.common_name.removeprefix(certificate_signer.NODE_PREFIX)
        key = pinning.pin_of_key(wanted.public_key)
        try:
            node = await self._client.get(NODES, name)
        except errors.NotFound:
            given = any(self._is_given(one, request, wanted, key) for one in self._requests.cache.values())
            return f"the name {name} was given to another worker just now: choose another with --name" if given else ""
        if meta.annotations(node).get(certificate_signer.KEY_ANNOTATION) == key:
            return ""
        return (
            f"there is a worker {name}, and the request does not show that it comes from there: choose another name "
            f"with --name, or remove that worker first (kubectl delete node {name})"
        )

    def _is_given(self, other: Object, request: Object, wanted: Request, key: str) -> bool:
        """Whether another request was issued the same name recently, so that its node may be about to appear."""
        spec = other["spec"]
        if meta.uid(other) == meta.uid(request) or spec["signerName"] != certificate_signer.WORKER_CLIENT:
            return False
        made_at = times.parse(meta.metadata(other)["creationTimestamp"])
        if "Approved" not in _states(other) or self._clock.now() - made_at > _REGISTERING_S:
            return False
        try:
            asked = signing_requests.read(base64.b64decode(spec["request"]))
        except NotARequest:
            return False
        same = asked.subject.common_name == wanted.subject.common_name
        return same and pinning.pin_of_key(asked.public_key) != key

    async def _may(self, spec: Object, subresource: str) -> bool:
        """Whether the requester is authorized for such a certificate."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": spec.get("username", ""),
                "uid": spec.get("uid", ""),
                "groups": spec.get("groups") or [],
                "extra": spec.get("extra") or {},
                "resourceAttributes": {
                    "group": REQUESTS[0],
                    "resource": REQUESTS[2],
                    "subresource": subresource,
                    "verb": "create",
                    "version": "*",
                },
            },
        }
        answer = await self._client.create(_REVIEWS, review)
        return bool((answer.get("status") or {}).get("allowed"))

    async def _mark(self, request: Object, kind: str, *, reason: str, message: str, door: str) -> None:
        status = request.get("status") or {}
        condition = {"type": kind, "status": "True", "reason": reason, "message": message}
        conditions = [*(status.get("conditions") or ()), condition]
        await self._client.update(
            REQUESTS, {**request, "status": {**status, "conditions": conditions}}, subresource=door
        )
        log.info("certificate request marked", request=meta.name(request), condition=kind, why=message)


def _states(request: Object) -> set[str]:
    return {one["type"] for one in _conditions(request)}


def _conditions(request: Object) -> list[dict[str, Any]]:
    return (request.get("status") or {}).get("conditions") or []


def _due(request: Object) -> float:
    """When a request may be deleted."""
    settled = [times.parse(one["lastUpdateTime"]) for one in _conditions(request) if one.get("lastUpdateTime")]
    if settled:
        return max(settled) + _DONE_S
    return times.parse(meta.metadata(request)["creationTimestamp"]) + _PENDING_S
