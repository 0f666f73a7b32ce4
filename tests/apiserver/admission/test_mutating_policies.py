"""MutatingAdmissionPolicies in the server; `tests/stock/test_same_mutations.py` compares with the stock server."""

import base64
import json
from typing import Any

import pytest

from rota.api.cel.values import Duration, ObjectValue, Timestamp
from rota.api.patches import schemas
from rota.apiserver.admission import mutating_policies, mutation_patches
from rota.apiserver.admission.bound_policies import BoundPolicies
from rota.apiserver.admission.mutation_patches import MutationError
from rota.testing.api import ApiServer
from rota.testing.webhook_server import Said, WebhookServer

_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{_REGISTRATION}/mutatingadmissionpolicies"
BINDINGS = f"{_REGISTRATION}/mutatingadmissionpolicybindings"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
LABEL = "Object{metadata: Object.metadata{labels: {'seen': 'yes'}}}"


def _rule(resource: str, group: str = "", version: str = "v1") -> dict[str, Any]:
    return {"apiGroups": [group], "apiVersions": [version], "resources": [resource], "operations": ["*"]}


def _apply(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def _patch(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


async def _enforce(
    api: ApiServer, mutation: dict[str, Any], rule: dict[str, Any] | None = None, name: str = "p", **spec: Any
) -> None:
    declared = {
        "matchConstraints": {"resourceRules": [rule or _rule("configmaps")]},
        "mutations": [mutation],
        "reinvocationPolicy": "Never",
        **spec,
    }
    for path, body in ((POLICIES, declared), (BINDINGS, {"policyName": name})):
        answer = await api.post(path, {"metadata": {"name": name}, "spec": body})
        assert (answer.code, answer.warnings) == (201, []), answer


def _map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def _pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def test_a_policy_acts_with_the_next_request_and_no_longer_without_its_binding() -> None:
    async with ApiServer() as api:
        await _enforce(api, _apply(LABEL))
        assert (await api.post(MAPS, _map("one"))).json["metadata"]["labels"] == {"seen": "yes"}
        assert (await api.delete(f"{BINDINGS}/p")).code == 200
        assert "labels" not in (await api.post(MAPS, _map("two"))).json["metadata"]


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
async def test_older_versions_of_the_kinds_are_the_same_policies(version: str) -> None:
    async with ApiServer() as api:
        await _enforce(api, _apply(LABEL))
        older = await api.get(POLICIES.replace("/v1/", f"/{version}/") + "/p")
        assert older.json["apiVersion"] == f"admissionregistration.k8s.io/{version}"
        assert older.json["spec"]["mutations"] == [_apply(LABEL)]
        assert (await api.delete(BINDINGS.replace("/v1/", f"/{version}/") + "/p")).code == 200
        assert "labels" not in (await api.post(MAPS, _map("one"))).json["metadata"]


async def test_deletions_are_not_touched_and_policies_do_not_change_themselves() -> None:
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    async with ApiServer() as api:
        assert (await api.post(MAPS, _map("one"))).code == 201
        await _enforce(api, _apply("Object{metadata: Object.metadata{labels: {'x': object.nothing}}}"), everything)
        assert (await api.post(MAPS, _map("two"))).code == 403
        assert (await api.delete(f"{MAPS}/one")).code == 200
        assert (await api.delete(f"{BINDINGS}/p")).code == 200


async def test_repeated_pods_are_changed_each() -> None:
    async with ApiServer() as api:
        for number in range(4):
            assert (await api.post(PODS, _pod(f"free-{number}"))).code == 201
        name = _apply("Object{metadata: Object.metadata{labels: {'name': object.metadata.name}}}")
        await _enforce(api, name, _rule("pods"))
        for number in range(4):
            made = await api.post(PODS, _pod(f"held-{number}"))
            assert made.json["metadata"]["labels"] == {"name": f"held-{number}"}


async def test_added_containers_get_defaults_and_limits_of_the_namespace() -> None:
    async with ApiServer() as api:
        limits = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "100m"}}]}
        ranges = "/api/v1/namespaces/default/limitranges"
        assert (await api.post(ranges, {"metadata": {"name": "l"}, "spec": limits})).code == 201
        side = "Object.spec.initContainers{name: 'side', image: 'x'}"
        await _enforce(api, _apply(f"Object{{spec: Object.spec{{initContainers: [{side}]}}}}"), _rule("pods"))
        made = await api.post(PODS, _pod("p"))
        (container,) = made.json["spec"]["initContainers"]
        assert container["imagePullPolicy"] == "Always"
        assert container["resources"]["requests"] == {"cpu": "100m"}


async def test_a_rule_for_another_version_sees_that_version_and_its_change_is_kept() -> None:
    scalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    target = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    async with ApiServer() as api:
        old = _apply("Object{spec: Object.spec{targetCPUUtilizationPercentage: 70}}")
        await _enforce(api, old, _rule("horizontalpodautoscalers", "autoscaling"))
        made = await api.post(
            scalers, {"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}}
        )
        (metric,) = made.json["spec"]["metrics"]
        assert metric["resource"]["target"] == {"type": "Utilization", "averageUtilization": 70}


async def test_scale_is_changed_as_its_own_kind() -> None:
    async with ApiServer() as api:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": _pod("x")["spec"]}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        assert (await api.post(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})).code == 201
        most = _apply("object.spec.replicas > 5 ? Object{spec: Object.spec{replicas: 5}} : Object{}")
        await _enforce(api, most, _rule("deployments/scale", "apps"))
        answer = await api.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 9}})
        assert answer.json["spec"] == {"replicas": 5}
        assert (await api.get(f"{DEPLOYMENTS}/d")).json["spec"]["replicas"] == 5


_DEFINITION = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "parts": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
                                        },
                                    },
                                    "whole": {"type": "array", "items": {"type": "string"}},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}


async def test_custom_objects_are_merged_by_their_schema() -> None:
    things = "/apis/example.com/v1/namespaces/default/things"
    async with ApiServer() as api:
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert (await api.post(definitions, _DEFINITION)).code == 201
        parts = "parts: [Object.spec.parts{name: 'b', size: 9}, Object.spec.parts{name: 'c'}]"
        rule = _rule("things", "example.com")
        await _enforce(api, _apply(f"Object{{spec: Object.spec{{{parts}}}}}"), rule)
        body = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
        given = {"parts": [{"name": "a", "size": 1}, {"name": "b", "size": 2}]}
        made = await api.post(things, {**body, "spec": given})
        assert made.json["spec"]["parts"] == [{"name": "a", "size": 1}, {"name": "b", "size": 9}, {"name": "c"}]
        await _enforce(api, _apply("Object{spec: Object.spec{whole: ['x']}}"), rule, name="q")
        refused = await api.post(things, {**body, "spec": given})
        assert refused.code == 403
        assert "may not mutate atomic arrays, maps or structs: .spec.whole" in refused.json["message"]


def _says(*operations: dict[str, Any]) -> Said:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


async def test_policies_run_before_webhooks_and_again_after_their_changes_if_they_ask_for_it() -> None:
    count = (
        "Object{data: {'runs': (has(object.data.runs) ? string(object.data.runs) : '') + 'x', "
        "?'copy': has(object.data.hook) ? optional.of(string(object.data.hook)) : optional.none()}}"
    )
    async with ApiServer() as api, WebhookServer() as hook:
        hook.answer = lambda _: _says({"op": "add", "path": "/data/hook", "value": "was here"})
        webhook = {
            "name": "one.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": hook.client_config("/"),
            "rules": [_rule("configmaps")],
        }
        configurations = f"{_REGISTRATION}/mutatingwebhookconfigurations"
        assert (await api.post(configurations, {"metadata": {"name": "w"}, "webhooks": [webhook]})).code == 201
        await _enforce(api, _apply(count), name="never")
        once = await api.post(MAPS, _map("once", a="1"))
        assert once.json["data"] == {"a": "1", "runs": "x", "hook": "was here"}
        assert hook.reviews[0]["request"]["object"]["data"] == {"a": "1", "runs": "x"}
        assert (await api.delete(f"{BINDINGS}/never")).code == 200
        await _enforce(api, _apply(count), name="again", reinvocationPolicy="IfNeeded")
        twice = await api.post(MAPS, _map("twice", a="1"))
        assert twice.json["data"] == {"a": "1", "runs": "xx", "hook": "was here", "copy": "was here"}
        assert len(hook.reviews) == 2, "the webhook does not ask for a second call"


async def test_an_expression_that_costs_too_much_refuses_the_request() -> None:
    nested = "[0,1,2,3,4,5,6,7,8,9].all(a, " * 7 + "true" + ")" * 7
    async with ApiServer() as api:
        await _enforce(api, _apply(f"{nested} ? Object{{}} : Object{{}}"))
        refused = await api.post(MAPS, _map("one"))
        assert refused.code == 403
        assert "cost" in refused.json["message"]


def _object(kind: str, **fields: Any) -> ObjectValue:
    value = ObjectValue(kind)
    value.update(fields)
    return value


def test_values_in_a_json_patch_have_the_form_of_protobuf() -> None:
    given = {
        "large": 2**60,
        "small": 7,
        "whole": 2.0,
        "part": 0.5,
        "bytes": b"\x00\x01",
        "time": Timestamp(0),
        "span": Duration(1_500_000_000),
        "short": Duration(1_500),
        "null": None,
    }
    patched = mutation_patches.json_patched([_object("JSONPatch", op="add", path="/x", value=given)], {})
    assert patched == {
        "x": {
            "large": str(2**60),
            "small": 7,
            "whole": 2,
            "part": 0.5,
            "bytes": "AAE=",
            "time": "1970-01-01T00:00:00Z",
            "span": "1.5s",
            "short": "0.0000015s",
            "null": None,
        }
    }


@pytest.mark.parametrize("value", [float("inf"), {1: "x"}, _object("Object", spec=_object("Object.other"))])
def test_values_without_a_form_in_json_are_refused(value: Any) -> None:
    with pytest.raises(MutationError):
        mutation_patches.json_patched([_object("JSONPatch", op="add", path="/x", value=value)], {})


def test_a_configuration_leaves_what_it_does_not_name() -> None:
    schema = schemas.for_kind("v1", "ConfigMap")
    assert schema is not None
    live = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "m", "labels": {"a": "b"}},
        "data": {"x": "1"},
    }
    value = _object("Object", data={"y": "2"})
    changed = mutation_patches.apply_configuration(value, live, schema)
    assert changed == {**live, "data": {"x": "1", "y": "2"}}
    for wrong in (Timestamp(0), float("nan")):
        with pytest.raises(MutationError, match="has no form in JSON"):
            mutation_patches.apply_configuration(_object("Object", data={"y": wrong}), live, schema)


class Followed:
    """A cache of one object."""

    def __init__(self, obj: dict[str, Any]) -> None:
        self._obj = obj

    def subscribe(self, note: Any) -> None:
        note(None, self._obj)


def test_a_stored_policy_without_an_expression_is_wrong_and_not_without_effect() -> None:
    """An older server has stored it without a check."""
    policy = {"metadata": {"name": "p"}, "spec": {"mutations": [_apply(LABEL), _apply("")]}}
    bound = {"metadata": {"name": "p"}, "spec": {"policyName": "p"}}
    known: Any = BoundPolicies(Followed(policy), Followed(bound), mutating_policies._compiled)  # type: ignore[arg-type]
    ((found, _),) = known
    assert found.error == "spec.mutations[1].applyConfiguration.expression: Required value"
