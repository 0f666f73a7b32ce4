"""Tokens that nodes request: for the pods on them, with audiences that the pod's volumes name."""

import base64
from collections.abc import AsyncIterator
from typing import Any, Final

from rota.api import gotext, meta
from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Attributes, Authorizer, Object, Question, Registry

_PODS: Final = GroupResource("", "pods")
_CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
_VOLUMES: Final = GroupResource("", "persistentvolumes")
_DRIVERS: Final = GroupResource("storage.k8s.io", "csidrivers")


async def wrong(node: str, at: Attributes, request: Object, registry: Registry, authorizer: Authorizer) -> str:
    """Why a node may not get a token; empty if it may, NotFound if there is no such pod."""
    spec = request.get("spec") or {}
    bound = spec.get("boundObjectRef") or {}
    if (bound.get("apiVersion"), bound.get("kind")) != ("v1", "Pod") or not bound.get("name"):
        return "node requested token not bound to a pod"
    if not bound.get("uid"):
        return "node requested token with a pod binding without a uid"
    pod = (await registry.read(registry.resource(_PODS), at.namespace, bound["name"])).object
    if bound["uid"] != meta.uid(pod):
        return (
            f"the UID in the bound object reference ({bound['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
    if (pod.get("spec") or {}).get("nodeName") != node:
        return "node requested token bound to a pod scheduled on a different node"
    audiences = spec.get("audiences") or [""]
    if len(audiences) > 1:
        return "node may only request 0 or 1 audiences"
    return await _wrong_audience(audiences[0], pod, at, registry, authorizer)


def decoded(text: str | bytes) -> bytes:
    """Parse JSON; ValueError if the bytes are not valid."""
    return base64.b64decode(text, validate=True)


async def _wrong_audience(
    audience: str, pod: Object, at: Attributes, registry: Registry, authorizer: Authorizer
) -> str:
    async for named in _audiences(pod, registry):
        if named == audience:
            return ""
    question = Question(
        user=at.user,
        verb="request-serviceaccounts-token-audience",
        resource=audience,
        namespace=at.namespace,
        name=at.name,
    )
    if (await authorizer.authorize(question)).allowed:
        return ""
    return (
        f"audience {gotext.quote(audience)} not found in pod spec volume, {at.user.name} is not authorized to request "
        "tokens for this audience"
    )


async def _audiences(pod: Object, registry: Registry) -> AsyncIterator[str]:
    """The audiences of the tokens that a pod's volumes need, directly or through their CSI drivers."""
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                yield source["serviceAccountToken"].get("audience") or ""
        name = await _driver(pod, volume, registry)
        driver = await registry.find(registry.resource(_DRIVERS), "", name) if name else None
        for request in ((driver.object.get("spec") or {}).get("tokenRequests") or ()) if driver is not None else ():
            yield request.get("audience") or ""


async def _driver(pod: Object, volume: dict[str, Any], registry: Registry) -> str:
    """The CSI driver of a pod's volume, if it has one."""
    if volume.get("csi"):
        return volume["csi"].get("driver") or ""
    claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
    if volume.get("ephemeral"):
        claim = f"{meta.name(pod)}-{volume['name']}"
    if not claim:
        return ""
    found = await registry.find(registry.resource(_CLAIMS), meta.namespace(pod), claim)
    bound = (found.object.get("spec") or {}).get("volumeName") if found is not None else None
    if not bound:
        return ""
    persistent = await registry.find(registry.resource(_VOLUMES), "", bound)
    source = ((persistent.object.get("spec") or {}).get("csi") or {}) if persistent is not None else {}
    return source.get("driver") or ""
