"""The rules of Volcano's kinds (`rota.api.batch.admission`) as webhooks, for API servers that do not have them.

`POST /mutate` sets defaults, `POST /validate` checks; both take and give an AdmissionReview v1. A pod template is
checked for unknown fields and wrong types; the API server validates the rest when it gets the pods. Commands have
namespaces and queues have none, so a Command for a queue also needs the permission to update that queue.
"""

import base64
import copy
from typing import Any, Final

import msgspec
from aiohttp import web

from rota.api import meta
from rota.api.batch import admission, kinds
from rota.api.meta import Object
from rota.client import admission_reviews
from rota.client.paths import Target
from rota.client.verbs import Client
from rota.kit import logs

log = logs.get(__name__)

MUTATING: Final[Target] = ("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations")
VALIDATING: Final[Target] = ("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
_NAMESPACES: Final[Target] = ("", "v1", "namespaces")
_ACCESS_REVIEWS: Final[Target] = ("authorization.k8s.io", "v1", "subjectaccessreviews")
#: The name of both configurations.
NAME: Final = "rota-batch"
_MOST_BYTES: Final = 8 * 1024 * 1024
_UNPROCESSABLE: Final = 422
_FORBIDDEN: Final = 403
#: Versions and operations of the kinds with rules.
_MUTATED: Final = (admission.JOBS, admission.CRON_JOBS, admission.POD_GROUPS, admission.QUEUES)
_VERSIONS: Final = {
    admission.JOBS: "v1alpha1",
    admission.CRON_JOBS: "v1alpha1",
    admission.COMMANDS: "v1alpha1",
    admission.JOB_FLOWS: "v1alpha1",
    admission.POD_GROUPS: "v1beta1",
    admission.QUEUES: "v1beta1",
    admission.HYPER_NODES: "v1alpha1",
}


class Webhooks:
    """Answers reviews; queues and namespaces are read from the API server."""

    def __init__(self, client: Client) -> None:
        self._client: Final = client

    def application(self) -> web.Application:
        """The HTTP application."""
        app = web.Application(client_max_size=_MOST_BYTES)
        app.router.add_post("/mutate", self._mutate)
        app.router.add_post("/validate", self._validate)
        return app

    async def _mutate(self, request: web.Request) -> web.Response:
        return _reply(await self.mutate(await _review(request)))

    async def _validate(self, request: web.Request) -> web.Response:
        return _reply(await self.validate(await _review(request)))

    async def mutate(self, asked: Object) -> Object:
        """The response to a review: a patch with defaults."""
        resource, new, old = _resource(asked), asked.get("object"), asked.get("oldObject")
        if new is None or resource not in _MUTATED or asked.get("subResource"):
            return {"uid": asked["uid"], "allowed": True}
        filled = copy.deepcopy(dict(new))
        namespace = None
        if resource == admission.POD_GROUPS and old is None:
            namespace = await self._client.get(_NAMESPACES, str(asked.get("namespace") or ""))
        admission.set_defaults(resource, filled, old, namespace)
        patch = [
            {"op": "add", "path": f"/{part}", "value": filled[part]}
            for part in ("spec", "metadata")
            if filled.get(part) != new.get(part)
        ]
        if not patch:
            return {"uid": asked["uid"], "allowed": True}
        text = base64.b64encode(msgspec.json.encode(patch)).decode()
        return {"uid": asked["uid"], "allowed": True, "patchType": "JSONPatch", "patch": text}

    async def validate(self, asked: Object) -> Object:
        """The response to a review: allowed, or all errors."""
        resource, new, old = _resource(asked), asked.get("object"), asked.get("oldObject")
        if resource not in admission.RESOURCES or asked.get("subResource"):
            return {"uid": asked["uid"], "allowed": True}
        queues: dict[str, Object] = {}
        if admission.needs_queues(resource, new, old):
            queues = {meta.name(one): one for one in (await self._client.list(kinds.QUEUES)).items}
        if new is None:
            refusal, code = admission.deletion_refusal(resource, old or {}, queues), _FORBIDDEN
        else:
            found = admission.errors(resource, new, old, queues)
            refusal, code = "; ".join(map(str, found)), _UNPROCESSABLE
            if resource == admission.COMMANDS and not refusal:
                refusal, code = await self._target_refusal(asked, new), _FORBIDDEN
        if not refusal:
            return {"uid": asked["uid"], "allowed": True}
        return {"uid": asked["uid"], "allowed": False, "status": {"code": code, "message": refusal}}

    async def _target_refusal(self, asked: Object, command: Object) -> str:
        """Why the user may not give this command; empty if it is allowed."""
        target, user = command.get("target") or {}, asked.get("userInfo") or {}
        if target.get("kind") != "Queue":
            return ""
        name = str(target.get("name") or "")
        group, plural = admission.QUEUES
        spec = {
            "user": user.get("username") or "",
            "groups": user.get("groups") or [],
            "uid": user.get("uid") or "",
            "extra": user.get("extra") or {},
            "resourceAttributes": {"verb": "update", "group": group, "resource": plural, "name": name},
        }
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = await self._client.create(_ACCESS_REVIEWS, review)
        if (answer.get("status") or {}).get("allowed"):
            return ""
        return f"a command for queue {name} needs the permission to update that queue"


def configurations(url: str, authority: bytes) -> tuple[tuple[Target, Object], ...]:
    """What makes an API server ask the webhooks at a URL, which have a certificate of this CA."""

    def webhook(path: str, resources: Any, operations: list[str]) -> Object:
        return {
            "name": f"{path}.{NAME}.rota.dev",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 10,
            "clientConfig": {"url": f"{url.rstrip('/')}/{path}", "caBundle": base64.b64encode(authority).decode()},
            "rules": [
                {
                    "apiGroups": [group],
                    "apiVersions": [_VERSIONS[group, plural]],
                    "resources": [plural],
                    "operations": [*operations, *(["DELETE"] if (group, plural) == admission.QUEUES else [])]
                    if path == "validate"
                    else operations,
                }
                for group, plural in resources
            ],
        }

    def configuration(target: Target, kind: str, one: Object) -> tuple[Target, Object]:
        made = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": NAME}}
        return target, {**made, "webhooks": [one]}

    operations = ["CREATE", "UPDATE"]
    return (
        configuration(MUTATING, "MutatingWebhookConfiguration", webhook("mutate", _MUTATED, operations)),
        configuration(VALIDATING, "ValidatingWebhookConfiguration", webhook("validate", _VERSIONS, operations)),
    )


async def _review(request: web.Request) -> Object:
    asked = await admission_reviews.asked(request)
    try:
        _resource(asked)
    except (KeyError, TypeError) as problem:
        raise web.HTTPBadRequest(text=f"this is no AdmissionReview: {problem}") from None
    return asked


def _resource(asked: Object) -> admission.Resource:
    named = asked["resource"]
    return str(named.get("group") or ""), str(named["resource"])


def _reply(response: Object) -> web.Response:
    if not response["allowed"]:
        log.info("refused", why=response["status"]["message"])
    return admission_reviews.answer(response)
