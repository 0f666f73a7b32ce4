"""Objects with one mistake: the server reports it and does not fail."""

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from rota.testing.api import ApiServer

_HERE = "/api/v1/namespaces/default"
_CONTAINER = {
    "name": "c",
    "image": "x:1",
    "ports": [{"containerPort": 80, "hostPort": 80, "name": "h"}],
    "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "example.com/gpu": "1"}},
    "livenessProbe": {"httpGet": {"port": 80}},
    "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a"}],
}
_TERM = {"topologyKey": "z", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}
_POD = {
    "containers": [_CONTAINER],
    "initContainers": [{"name": "i", "image": "y", "restartPolicy": "Always"}],
    "volumes": [
        {"name": "v", "configMap": {"name": "c", "items": [{"key": "a", "path": "b"}]}},
        {"name": "w", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
    ],
    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}],
    "affinity": {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": _TERM}]
        }
    },
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}],
    "nodeSelector": {"a": "b"},
    "nodeName": "n",
}
_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": _POD}
_KINDS: dict[str, dict[str, Any]] = {
    f"{_HERE}/pods": {"spec": _POD},
    "/apis/apps/v1/namespaces/default/deployments": {
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": _TEMPLATE,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "20%"}},
        }
    },
    "/apis/batch/v1/namespaces/default/jobs": {
        "spec": {
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {**_POD, "restartPolicy": "Never"}},
            "completions": 2,
            "completionMode": "Indexed",
            "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "X"}]}]},
        }
    },
    f"{_HERE}/services": {
        "spec": {"clusterIP": "10.96.0.99", "ports": [{"name": "a", "port": 80, "targetPort": "http"}], "selector": {}}
    },
    f"{_HERE}/persistentvolumeclaims": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    f"{_HERE}/resourcequotas": {
        "spec": {
            "hard": {"pods": "100", "requests.cpu": "100", "count/jobs.batch": "9"},
            "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]},
        }
    },
    "/api/v1/nodes": {
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "1", "pods": "5"}},
    },
}
_JUNK: tuple[Any, ...] = (None, {}, [], "", 0, -1, "x", True, [None], {"a": None}, "9" * 30, 2**40, ["x"], {"": ""})


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(item, (*path, key))


def _mutated(obj: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    changed = copy.deepcopy(obj)
    for _ in range(rng.choice((1, 1, 2))):
        *way, last = rng.choice(list(_places(changed)))
        at: Any = changed
        for key in way:
            at = at[key]
        if rng.random() < 0.25:
            del at[last]
        else:
            at[last] = copy.deepcopy(rng.choice(_JUNK))
    return changed


@pytest.mark.slow
@pytest.mark.parametrize("path", _KINDS)
async def test_an_object_that_is_almost_right_never_makes_the_server_fail(api: ApiServer, path: str) -> None:
    rng = random.Random(path)
    good = {"metadata": {"name": "z", "labels": {"a": "b"}}, **_KINDS[path]}
    assert (await api.post(path, {**good, "metadata": {"name": "live"}})).code in {201, 409}
    for _ in range(150):
        wrong = _mutated(good, rng)
        answers = [
            await api.post(path, wrong, dryRun="All"),
            await api.put(f"{path}/live", {**wrong, "metadata": {"name": "live"}}, dryRun="All"),
            await api.patch(f"{path}/live", {"spec": wrong.get("spec")}, dryRun="All"),
        ]
        assert all(answer.code < 500 for answer in answers), (wrong, answers)


async def test_a_job_without_a_name_is_refused_for_that(api: ApiServer) -> None:
    job = {"metadata": {}, **_KINDS["/apis/batch/v1/namespaces/default/jobs"]}
    answer = await api.post("/apis/batch/v1/namespaces/default/jobs", job)
    assert answer.code == 422
    assert answer.json["details"]["causes"][0]["field"] == "metadata.name"
