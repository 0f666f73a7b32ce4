"""The registry of kinds: agreement with the models, look-ups, and change at run time."""

import ast
import threading
from pathlib import Path
from typing import Any

import pytest

from rota.api import builtin_kinds, models, scheme
from rota.api.identifiers import GroupKind, GroupResource, GroupVersion, GroupVersionKind
from rota.api.kinds import ALL_VERBS, ResourceType, version_rank
from rota.api.scheme import SchemeError

_VERBS = {"post": "create", "put": "update"}


def _paint(version: str = "v1", **changes: Any) -> ResourceType:
    values: dict[str, Any] = {
        "group": "example.com", "version": version, "kind": "Paint", "plural": "paints", "namespaced": True, **changes,
    }  # fmt: skip
    return ResourceType(**values)


def _told_by_the_distribution() -> list[dict[str, Any]]:
    """What the distribution's own resource modules say, read from their source: importing them needs its client."""
    files = Path(models.__path__[-1]).parent.joinpath("resources").glob("*.py")
    return [
        _told_by_class(node)
        for file in files
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef)
    ]


def _told_by_class(node: ast.ClassDef) -> dict[str, Any]:
    scope, *model = map(ast.unparse, node.bases)
    info = next(
        one.value for one in node.body if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "_api_info"
    )
    assert isinstance(info, ast.Call)
    words = {word.arg or "": word.value for word in info.keywords}
    found: dict[str, Any] = {
        name: [ast.literal_eval(argument) for argument in value.args]
        if isinstance(value, ast.Call)
        else ast.literal_eval(value)
        for name, value in words.items()
    }
    found["namespaced"] = scope.startswith("res.Namespaced")
    found["model"] = model[0].removeprefix("m_") if model else None
    found["verbs"] = {_VERBS.get(verb, verb) for verb in found["verbs"] if not verb.startswith("global_")}
    return found


#: Running pods keep their size and their containers: what would change them is not announced.
_LEFT_OUT = frozenset({"ephemeralcontainers", "resize"})


@pytest.mark.slow
def test_the_table_agrees_with_the_distribution_of_models() -> None:
    known = scheme.builtin()
    told = _told_by_the_distribution()
    resources = [one for one in told if "action" not in one]
    assert len(told) > 150
    assert len(resources) == len(list(builtin_kinds.resource_types()))
    for one in told:
        group, version, kind = one.get("parent", one["resource"])
        found = known.by_resource(group, version, one["plural"])
        assert found is not None
        assert found.namespaced is one["namespaced"]
        if one.get("action") in _LEFT_OUT:
            assert one["action"] not in found.subresources
        elif "action" in one:
            subresource = found.subresources[one["action"]]
            if one["model"]:
                assert (subresource.model, list(subresource.kind)) == (one["model"], one["resource"])
            assert set(subresource.verbs) == one["verbs"]
        else:
            assert (found.kind, found.model) == (kind, one["model"])
            assert set(found.verbs) == one["verbs"] - ({"watch"} if kind == "ComponentStatus" else set())


@pytest.mark.slow
def test_every_kind_has_a_struct_with_metadata() -> None:
    for one in scheme.builtin():
        module, _, name = (one.model or "").partition(".")
        assert "metadata" in getattr(models.load(module), name).__struct_fields__


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("po", "pods"),
        ("pods", "pods"),
        ("Pod", "pods"),
        ("deploy", "deployments.v1.apps"),
        ("deployments.apps", "deployments.v1.apps"),
        ("deployments.v1.apps", "deployments.v1.apps"),
        ("hpa", "horizontalpodautoscalers.v2.autoscaling"),
        ("hpa.v1.autoscaling", "horizontalpodautoscalers.v1.autoscaling"),
        ("events", "events"),
        ("events.events.k8s.io", "events.v1.events.k8s.io"),
        ("crd", "customresourcedefinitions.v1.apiextensions.k8s.io"),
        ("endpoints", "endpoints"),
        ("nothing", "None"),
        ("pods.apps", "None"),
        ("pods.v2.apps", "None"),
    ],
)
def test_people_name_resources_in_many_ways(name: str, expected: str) -> None:
    assert str(scheme.builtin().find(name)) == expected


def test_kinds_are_found_by_each_of_their_names() -> None:
    known = scheme.builtin()
    pods = known.by_resource("", "v1", "pods")
    assert pods is not None
    assert pods is known.by_kind(GroupVersionKind("", "v1", "Pod"))
    assert pods is known.by_group_kind(GroupKind("", "Pod"))
    assert pods is known.preferred(GroupResource("", "pods"))
    assert pods in known
    assert pods.api_version == "v1"
    assert (pods.singular, pods.list_kind, pods.verbs) == ("pod", "PodList", ALL_VERBS)
    assert known.by_resource("", "v2", "pods") is None
    assert known.preferred(GroupResource("", "nothing")) is None


def test_pods_offer_binding_eviction_and_log() -> None:
    pods = scheme.builtin().find("pods")
    assert pods is not None
    assert pods.subresources["eviction"].kind == GroupVersionKind("policy", "v1", "Eviction")
    assert pods.subresources["binding"].verbs == ("create",)
    assert pods.subresources["log"].verbs == ("get",)


def test_groups_and_versions_are_ordered_by_preference() -> None:
    groups = scheme.builtin().groups()
    assert next(iter(groups)) == ""
    assert groups["autoscaling"] == ("v2", "v1")
    assert groups["resource.k8s.io"] == ("v1", "v1beta2", "v1beta1", "v1alpha3")
    assert "jobs" in {one.plural for one in scheme.builtin().in_group_version(GroupVersion("batch", "v1"))}


def test_versions_sort_as_kubernetes_sorts_them() -> None:
    ordered = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]
    assert sorted(set(ordered), key=version_rank) == ordered


def test_a_custom_kind_comes_and_goes() -> None:
    known = scheme.builtin()
    before = known.generation
    known.add(_paint(short_names=("pt",)), _paint("v1beta1"))
    assert known.find("pt") == known.by_resource("example.com", "v1", "paints")
    assert [one.version for one in known.versions(GroupResource("example.com", "paints"))] == ["v1", "v1beta1"]
    assert known.generation > before
    assert known.remove(GroupResource("example.com", "paints"))
    assert known.find("paints") is None
    assert not known.remove(GroupResource("example.com", "paints"))


def test_a_custom_kind_can_be_replaced_in_one_step() -> None:
    known = scheme.builtin()
    known.add(_paint("v1beta1"))
    known.replace(GroupResource("example.com", "paints"), [_paint("v1", namespaced=False)])
    assert [str(one) for one in known.versions(GroupResource("example.com", "paints"))] == ["paints.v1.example.com"]


def test_built_in_kinds_can_neither_be_replaced_nor_removed() -> None:
    known = scheme.builtin()
    with pytest.raises(SchemeError, match="built-in"):
        known.add(_paint(), _paint(group="", plural="pods", kind="Pod"))
    assert known.find("paints") is None, "all or none"
    assert not known.remove(GroupResource("", "pods"))


def test_two_resources_cannot_share_a_kind() -> None:
    known = scheme.builtin()
    known.add(_paint())
    with pytest.raises(SchemeError, match="already the kind of paints"):
        known.add(_paint(plural="colours"))
    with pytest.raises(SchemeError, match="already the kind of pods"):
        known.replace(GroupResource("", "puds"), [_paint(group="", kind="Pod", plural="puds")])


@pytest.mark.slow
def test_readers_see_whole_states_while_writers_take_turns() -> None:
    known = scheme.builtin(guard=threading.Lock())
    resource = GroupResource("example.com", "paints")
    faults: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            versions = known.versions(resource)
            if len(versions) not in {0, 2} or known.find("pods") is None:
                faults.append(str(versions))

    def write(plural: str) -> None:
        for _ in range(40):
            known.add(*(_paint(version, plural=plural, kind=plural.title()) for version in ("v1", "v2")))
            known.remove(GroupResource("example.com", plural))

    readers = [threading.Thread(target=read) for _ in range(2)]
    writers = [threading.Thread(target=write, args=(plural,)) for plural in ("paints", "colours")]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert not faults
    assert known.find("colours") is None
