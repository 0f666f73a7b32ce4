"""A mutating webhook that gives new pods of autoscaled workloads their recommended resources.

`POST /pods` takes and gives an AdmissionReview v1. It answers from informers, in every process: a recommendation is in
the status of its autoscaler. A pod that it cannot help is admitted as it is (`failurePolicy: Ignore` likewise), because
a wrong request is better than a missing pod. Each pod of an autoscaled workload is marked, so that the updater sees
that the API server asks.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from rota.api import meta
from rota.client import admission_reviews
from rota.client.informers.informer import Informer
from rota.client.paths import Target
from rota.client.verbs import Object
from rota.forecaster import recommended_pods
from rota.forecaster.pod_updates import MARK
from rota.forecaster.recommended_pods import OFF
from rota.kit import logs
from rota.kit.metrics import Metrics

log = logs.get(__name__)

MUTATING: Final[Target] = ("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations")
NAME: Final = "rota-forecaster"
#: The annotation that says what was changed; VPA's.
CHANGES: Final = "vpaUpdates"
_MOST_BYTES: Final = 8 * 1024 * 1024


class AutoscalerWebhook:
    """Answers reviews of new pods."""

    def __init__(self, autoscalers: Informer[Object], ranges: Informer[Object], *, metrics: Metrics) -> None:
        self._autoscalers: Final = autoscalers
        self._ranges: Final = ranges
        self._reviews: Final = metrics.counter("pod_reviews_total", "Reviews of new pods, by outcome.", ("outcome",))

    def application(self) -> web.Application:
        """The HTTP application."""
        app = web.Application(client_max_size=_MOST_BYTES)
        app.router.add_post("/pods", self._post)
        return app

    async def _post(self, request: web.Request) -> web.Response:
        return admission_reviews.answer(self.review(await admission_reviews.asked(request)))

    def review(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The response to a review of a new pod."""
        patch = self._patch(asked.get("object") or {}, str(asked.get("namespace") or ""))
        self._reviews.labels("changed" if len(patch) > 1 else "seen" if patch else "other").inc()
        if not patch:
            return {"uid": asked["uid"], "allowed": True}
        text = base64.b64encode(msgspec.json.encode(patch)).decode()
        return {"uid": asked["uid"], "allowed": True, "patchType": "JSONPatch", "patch": text}

    def _patch(self, pod: Object, namespace: str) -> list[dict[str, Any]]:
        here = (each for each in self._autoscalers.cache.values() if meta.namespace(each) == namespace)
        autoscaler = recommended_pods.of(here, pod)
        if autoscaler is None or recommended_pods.mode(autoscaler) == OFF:
            return []
        ranges = [each for each in self._ranges.cache.values() if meta.namespace(each) == namespace]
        changes = recommended_pods.wanted(autoscaler, pod, ranges)
        containers = (pod.get("spec") or {}).get("containers") or ()
        annotations = {**meta.annotations(pod), MARK: ", ".join(each["name"] for each in containers)}
        if changes:
            shown = "; ".join(f"container {name}: {', '.join(sorted(amounts))}" for name, amounts in changes.items())
            annotations[CHANGES] = f"Pod resources updated by {meta.name(autoscaler)}: {shown}"
        return [
            {"op": "add", "path": "/metadata/annotations", "value": annotations},
            *(
                {"op": "add", "path": f"/spec/containers/{position}/resources", "value": resources}
                for position, resources in recommended_pods.changed_containers(pod, changes)
            ),
        ]


def configuration(url: str, authority: bytes) -> dict[str, Any]:
    """What makes an API server ask the webhook at a URL, which has a certificate of this CA."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [
            {
                "name": "pods.forecaster.rota.dev",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "timeoutSeconds": 5,
                "matchPolicy": "Equivalent",
                "clientConfig": {
                    "url": f"{url.rstrip('/')}/pods",
                    "caBundle": base64.b64encode(authority).decode(),
                },
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                        "scope": "Namespaced",
                    }
                ],
            }
        ],
    }
