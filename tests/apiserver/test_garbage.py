"""Arbitrary input: a response in the 200s or 400s, and objects that can be read afterwards."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from rota.testing.api import PATCHES, ApiServer

SEGMENTS = some.sampled_from(
    [
        "api", "apis", "v1", "apps", "batch", "namespaces", "default", "pods", "deployments", "status", "scale",
        "configmaps", "events", "events.k8s.io", "nodes", "web", "watch", "binding", "log", "openapi", "v3", "..",
        "%2e", "", "%00", "a%2Fb", "\u00fc", "healthz", "version",
    ]
)  # fmt: skip
PATHS = some.one_of(
    some.lists(SEGMENTS, max_size=7).map(lambda parts: "/" + "/".join(parts)),
    some.sampled_from(
        [
            "/api/v1/namespaces/default/pods",
            "/api/v1/namespaces/default/pods/web",
            "/api/v1/namespaces/default/pods/web/status",
            "/apis/apps/v1/namespaces/default/deployments/web",
            "/apis/apps/v1/namespaces/default/deployments/web/scale",
            "/api/v1/namespaces/default/configmaps/web",
            "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
            "/apis/events.k8s.io/v1/namespaces/default/events",
            "/api/v1/nodes",
        ]
    ),
)
PARAMETERS = some.dictionaries(
    some.sampled_from(
        [
            "limit", "continue", "labelSelector", "fieldSelector", "resourceVersionMatch", "dryRun", "fieldManager",
            "fieldValidation", "force", "pretty", "gracePeriodSeconds", "propagationPolicy", "orphanDependents",
            "timeoutSeconds", "includeObject",
        ]
    ),
    some.sampled_from(["", "0", "1", "-1", "true", "All", "x", "a=b", "a in (b", "metadata.name=web", "Strict"])
    | some.text(max_size=8),
    max_size=3,
)  # fmt: skip
SCALARS = some.none() | some.booleans() | some.integers(-5, 5) | some.floats(allow_nan=False) | some.text(max_size=5)
NAMES = some.sampled_from(
    [
        "apiVersion", "kind", "metadata", "spec", "status", "data", "name", "namespace", "labels", "annotations",
        "finalizers", "ownerReferences", "managedFields", "containers", "replicas", "selector", "template", "image",
        "generateName", "resourceVersion", "uid", "creationTimestamp", "deletionTimestamp", "generation", "conditions",
        "regarding", "note", "metrics", "$patch", "op", "path", "value",
    ]
)  # fmt: skip
VALUES = some.recursive(
    SCALARS,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = some.fixed_dictionaries(
    {},
    optional={
        "apiVersion": some.sampled_from(["v1", "apps/v1", "events.k8s.io/v1", "autoscaling/v1", "x"]),
        "kind": some.sampled_from(["Pod", "Deployment", "ConfigMap", "Event", "HorizontalPodAutoscaler", "Node"]),
        "metadata": VALUES
        | some.fixed_dictionaries(
            {"name": some.just("web")},
            optional={
                "labels": VALUES,
                "finalizers": VALUES,
                "ownerReferences": VALUES,
                "managedFields": VALUES,
                "resourceVersion": some.sampled_from(["", "0", "1", "x"]),
                "uid": some.text(max_size=3),
                "deletionTimestamp": some.sampled_from(["2020-01-01T00:00:00Z", "x"]),
                "generation": SCALARS,
            },
        ),
        "spec": VALUES,
        "status": VALUES,
        "data": VALUES,
        "metrics": VALUES,
    },
)
BODIES = some.one_of(
    some.none(),
    some.binary(max_size=30),
    OBJECTS,
    VALUES,
    some.lists(some.fixed_dictionaries({"op": some.sampled_from(["add", "remove"]), "path": some.text(max_size=9)})),
)
CONTENT_TYPES = some.sampled_from(
    ["", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "x", *PATCHES.values()]
)
ACCEPTS = some.sampled_from(
    ["", "application/json", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io,*/*", "text/html"]
)
REQUESTS = some.tuples(
    some.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"]),
    PATHS,
    PARAMETERS,
    BODIES,
    CONTENT_TYPES,
    ACCEPTS,
)
POD = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(some.lists(REQUESTS, min_size=1, max_size=6))
def test_no_request_makes_the_server_fail(requests: list[tuple[str, str, dict[str, str], Any, str, str]]) -> None:
    asyncio.run(send_all(requests))


async def send_all(requests: list[tuple[str, str, dict[str, str], Any, str, str]]) -> None:
    async with ApiServer() as api:
        await api.post("/api/v1/namespaces/default/pods", POD)
        for method, path, query, body, content_type, accept in requests:
            headers = {"content-type": content_type, "accept": accept, "user-agent": "fuzz/1"}
            answer = await api.request(method, path, body=body, headers=headers, query=query)
            assert answer.code < 500, (answer, method, path, query, body, content_type)
            if answer.code >= 400 and method != "HEAD" and answer.body.startswith(b"{"):
                status = answer.json
                assert (status["kind"], status["code"]) == ("Status", answer.code)
        for plural in ("pods", "configmaps", "nodes", "events"):
            listed = await api.get(f"/api/v1/{plural}")
            assert listed.code == 200
            json.loads(listed.body)


@pytest.mark.parametrize("namespace", [[], {}, 5, [[]]], ids=str)
async def test_an_applied_namespace_that_is_no_text_is_refused(namespace: Any) -> None:
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}}
    async with ApiServer() as api:
        answer = await api.patch("/api/v1/namespaces/default/configmaps/a", applied, kind="apply", fieldManager="f")
        assert answer.code == 400, answer
