"""Field selectors: syntax, the fields of each kind, and the refusal of others."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import fieldselectors
from rota.api.fieldselectors import FieldSelectorError
from rota.api.identifiers import GroupKind

POD = GroupKind("", "Pod")
INGRESS = GroupKind("networking.k8s.io", "Ingress")


def _selects(text: str, kind: GroupKind, obj: dict[str, Any]) -> bool:
    selector = fieldselectors.compile_selector(text, kind)
    selected = selector.matches(fieldselectors.extractor(kind)(obj))
    assert fieldselectors.matcher(selector, kind)(obj) is selected, "both ways to ask agree"
    return selected


_POD = {
    "metadata": {"name": "web-0", "namespace": "default"},
    "spec": {"nodeName": "n1", "schedulerName": "rota"},
    "status": {"phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}]},
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "spec.nodeName=n1",
        "spec.host=n1",
        "spec.nodeName==n1,status.phase!=Failed",
        "metadata.name=web-0,metadata.namespace=default",
        "status.podIP=10.0.0.7",
        "spec.hostNetwork=false",
        "status.nominatedNodeName=",
    ],
)
def test_a_pod_is_selected_by_its_fields(text: str) -> None:
    assert _selects(text, POD, _POD)


@pytest.mark.parametrize(
    "text", ["spec.nodeName=", "status.phase!=Running", "spec.hostNetwork=true", "metadata.name=x"]
)
def test_a_pod_with_other_fields_is_not_selected(text: str) -> None:
    assert not _selects(text, POD, _POD)


@pytest.mark.parametrize(
    ("kind", "text", "obj"),
    [
        (GroupKind("", "Node"), "spec.unschedulable=true", {"spec": {"unschedulable": True}}),
        (GroupKind("", "Node"), "spec.unschedulable=false", {"spec": {}}),
        (GroupKind("", "Event"), "involvedObject.name=x,source=kubelet",
         {"involvedObject": {"name": "x"}, "reportingComponent": "kubelet"}),
        (GroupKind("", "Secret"), "type=Opaque", {"type": "Opaque"}),
        (GroupKind("", "Namespace"), "status.phase=Active", {"status": {"phase": "Active"}}),
        (GroupKind("batch", "Job"), "status.successful=0", {"status": {}}),
        (GroupKind("batch", "Job"), "status.successful=3", {"status": {"succeeded": 3}}),
        (GroupKind("apps", "ReplicaSet"), "status.replicas=2", {"status": {"replicas": 2}}),
        (INGRESS, "metadata.name=x", {"metadata": {"name": "x"}}),
    ],
)  # fmt: skip
def test_other_kinds_have_fields_of_their_own(kind: GroupKind, text: str, obj: dict[str, Any]) -> None:
    assert _selects(text, kind, obj)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (POD, "field label not supported: foo.bar"),
        (INGRESS, '"foo.bar" is not a known field selector: only "metadata.name", "metadata.namespace"'),
        (GroupKind("batch", "Job"), 'field label "foo.bar" not supported for Job'),
    ],
)
def test_an_unknown_field_is_refused_in_the_words_of_its_kind(kind: GroupKind, message: str) -> None:
    with pytest.raises(FieldSelectorError) as caught:
        fieldselectors.compile_selector("foo.bar=baz", kind)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ("a=b\\x", "invalid field selector: invalid escape sequence: \\x"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_a_malformed_selector_is_refused(text: str, message: str) -> None:
    with pytest.raises(FieldSelectorError) as caught:
        fieldselectors.parse(text)
    assert str(caught.value) == message


def test_a_custom_kind_may_declare_more_fields() -> None:
    extra = {"spec.color": fieldselectors.at("spec", "color")}
    kind = GroupKind("example.com", "Paint")
    selector = fieldselectors.compile_selector("spec.color=red", kind, extra)
    assert selector.matches(fieldselectors.extractor(kind, extra)({"spec": {"color": "red"}}))
    with pytest.raises(FieldSelectorError, match=r'only "metadata.name", "metadata.namespace", "spec.color"'):
        fieldselectors.compile_selector("spec.size=1", kind, extra)


def test_the_required_value_of_a_field_is_known() -> None:
    selector = fieldselectors.parse("a=1,b!=2")
    assert selector.required_value("a") == "1"
    assert selector.required_value("b") is None


@given(st.lists(st.tuples(st.text("abc.", min_size=1), st.text("ab\\,=!"), st.booleans()), max_size=4))
def test_escaped_values_survive_printing_and_parsing(parts: list[tuple[str, str, bool]]) -> None:
    terms = {fieldselectors.Term(*part) for part in parts}
    text = ",".join(map(str, terms))
    assert set(fieldselectors.parse(text).terms) == terms
