"""TokenRequest: POST to `serviceaccounts/<name>/token` returns a new token of that account.

The checks are in upstream's order (`pkg/registry/core/serviceaccount/storage/token.go`, 1.33).
"""

import uuid
from collections.abc import Mapping
from typing import Any, Final

from rota.api import errors, fields, gotext, times
from rota.api.identifiers import GroupKind, GroupResource
from rota.apiserver.authentication import account_tokens
from rota.apiserver.authentication.account_tokens import ACCOUNTS, BINDABLE, Reference, Signer
from rota.apiserver.interfaces import Object, Registry, Reply, SubresourceRequest

KIND: Final = GroupKind("authentication.k8s.io", "TokenRequest")
_DEFAULT_S: Final = 3600
_LEAST_S: Final = 600
_MOST_S: Final = 1 << 32
_BOUND_KINDS: Final = {"Pod": "pod", "Secret": "secret", "Node": "node"}


class TokenRequests:
    """The handler of `serviceaccounts/token`."""

    def __init__(self, signer: Signer, *, audiences: tuple[str, ...]) -> None:
        """`audiences` are the default of a request that names none: this server's."""
        self._signer: Final = signer
        self._audiences: Final = audiences

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply:
        """See `SubresourceHandler.handle`."""
        body, at = request.body, request.at
        assert body is not None, "token requests are posted"
        account = await registry.read(registry.resource(ACCOUNTS), at.namespace, at.name)
        metadata = body.get("metadata") or {}
        if metadata.get("namespace") not in {None, "", at.namespace}:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        spec: dict[str, Any] = body.get("spec") or {}
        seconds = spec.get("expirationSeconds", _DEFAULT_S)
        _check(metadata, at.name, seconds)
        audiences = tuple(spec.get("audiences") or self._audiences)
        bound = await _bound(spec.get("boundObjectRef"), account.object, registry)
        said = account_tokens.claims(
            account.object,
            issuer=self._signer.issuer,
            audiences=audiences,
            now=at.now,
            lifetime_s=seconds,
            bound=bound,
        )
        answer = {
            **body,
            "metadata": {
                **metadata,
                "name": at.name,
                "namespace": at.namespace,
                "uid": str(uuid.uuid4()),
                "creationTimestamp": times.format_time(at.now),
            },
            "spec": {"boundObjectRef": None, **spec, "audiences": list(audiences), "expirationSeconds": seconds},
            "status": {"token": self._signer.sign(said), "expirationTimestamp": times.format_time(said["exp"])},
        }
        return Reply(object=answer, code=201)


async def _bound(wanted: Mapping[str, Any] | None, account: Object, registry: Registry) -> dict[str, Reference]:
    """The objects that the token is bound to; a pod includes its node."""
    if wanted is None:
        return {}
    kind, name = wanted.get("kind", ""), wanted.get("name", "")
    version = wanted.get("apiVersion", "")
    if kind not in _BOUND_KINDS or version != "v1":
        group_version = version if "/" in version else f"/{version}"
        raise errors.bad_request(f"cannot bind token to object of type {group_version}, Kind={kind}")
    if not name:
        raise errors.bad_request("Name parameter required.")
    claim = _BOUND_KINDS[kind]
    which = BINDABLE[claim]
    if "/" in name:
        raise errors.not_found(which, name)
    place = "" if claim == "node" else account["metadata"]["namespace"]
    found = (await registry.read(registry.resource(which), place, name)).object
    reference = Reference.to(found)
    if wanted.get("uid") and wanted["uid"] != reference.uid:
        why = (
            f"the UID in the bound object reference ({wanted['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict(GroupResource("", kind), name, why)
    bound = {claim: reference}
    if claim == "pod":
        _check_account(found, account)
        if node := await _node(found, registry):
            bound["node"] = node
    return bound


def _check_account(pod: Object, account: Object) -> None:
    name = account["metadata"]["name"]
    if (pod.get("spec") or {}).get("serviceAccountName") != name:
        whose = gotext.quote(name)
        raise errors.bad_request(
            f"cannot bind token for serviceaccount {whose} to pod running with different serviceaccount name."
        )


async def _node(pod: Object, registry: Registry) -> Reference | None:
    name = (pod.get("spec") or {}).get("nodeName")
    node = await registry.find(registry.resource(BINDABLE["node"]), "", name) if name else None
    return None if node is None else Reference.to(node.object)


def _check(metadata: Mapping[str, Any], name: str, seconds: int) -> None:
    if metadata.get("name") not in {None, "", name}:
        path = fields.Path("metadata").child("name")
        why = "must match the service account name if specified"
        raise errors.invalid(KIND, name, [fields.invalid(path, metadata["name"], why)])
    path = fields.Path("spec").child("expirationSeconds")
    if seconds < _LEAST_S:
        why = "may not specify a duration less than 10 minutes"
        raise errors.invalid(KIND, "", [fields.invalid(path, seconds, why)])
    if seconds > _MOST_S:
        why = "may not specify a duration larger than 2^32 seconds"
        raise errors.invalid(KIND, "", [fields.invalid(path, seconds, why)])
