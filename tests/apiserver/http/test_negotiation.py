import pytest

from rota.api import errors
from rota.apiserver.http import negotiation
from rota.apiserver.http.negotiation import Accepted, Shape

KUBECTL = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)


@pytest.mark.parametrize("accept", ["", "*/*", "application/*", "application/json", "text/html, application/json"])
def test_json_is_what_most_clients_get(accept: str) -> None:
    assert negotiation.accepted(accept) == Accepted()
    assert negotiation.accepted(accept).plain


def test_clients_that_prefer_protobuf_get_the_json_that_they_name_beside_it() -> None:
    assert negotiation.accepted("application/vnd.kubernetes.protobuf,application/json").plain
    assert negotiation.accepted("application/vnd.kubernetes.protobuf, */*").plain


def test_kubectl_asks_for_a_table() -> None:
    found = negotiation.accepted(KUBECTL)
    assert (found.shape, found.version, found.plain) == (Shape.TABLE, "v1", False)


def test_a_metadata_shape_must_fit_what_is_answered() -> None:
    one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    many = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    assert negotiation.accepted(one).shape is Shape.METADATA
    assert negotiation.accepted(many, listing=True).shape is Shape.METADATA_LIST
    with pytest.raises(errors.NotAcceptable):
        negotiation.accepted(one, listing=True)
    assert negotiation.accepted(f"{one},application/json", listing=True).shape is Shape.OBJECT


def test_the_client_s_weights_decide() -> None:
    assert negotiation.accepted("application/json;q=0.1,application/yaml;q=0.9").yaml
    assert not negotiation.accepted("application/yaml;q=0,application/json").yaml


@pytest.mark.parametrize("accept", ["text/html", "application/json;as=Table;v=v7;g=meta.k8s.io", "application/cbor"])
def test_what_cannot_be_produced_is_refused_with_what_can(accept: str) -> None:
    with pytest.raises(errors.NotAcceptable) as refusal:
        negotiation.accepted(accept)
    assert refusal.value.code == 406
    assert refusal.value.message == (
        "only the following media types are accepted: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )
