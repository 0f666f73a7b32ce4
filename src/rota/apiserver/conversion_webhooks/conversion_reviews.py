"""ConversionReviews: the request to a conversion webhook, and the objects that its response has. Pure.

A webhook may change everything of an object but its identity: of the metadata only labels and annotations are its to
change, the rest stays as it was. Versions `v1` and `v1beta1` are sent, the first that the definition names. Rules and
messages are those of `k8s.io/apiextensions-apiserver/pkg/apiserver/conversion` (1.36).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.api import fields, gotext
from rota.api.patches import json_values
from rota.apiserver.strategies.metadata import validate_annotations, validate_labels

VERSIONS: Final = ("v1", "v1beta1")
KIND: Final = "ConversionReview"
_GROUP: Final = "apiextensions.k8s.io"
API_VERSIONS: Final = tuple(f"{_GROUP}/{one}" for one in VERSIONS)
#: What Go calls the types of JSON values.
_GO_TYPES: Final = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
    type(None): "<nil>",
}


class InvalidConversion(ValueError):
    """The webhook's response is not a valid review, or its objects are not the converted ones."""


def version(accepted: Sequence[str]) -> str:
    """The version of the review to send; InvalidConversion if the webhook accepts none of them."""
    for one in accepted:
        if one in VERSIONS:
            return one
    raise InvalidConversion("no supported conversion review versions")


def review(which: str, uid: str, objects: Sequence[Mapping[str, Any]], api_version: str) -> dict[str, Any]:
    """The body of a request to a webhook."""
    asked = {"uid": uid, "desiredAPIVersion": api_version, "objects": objects}
    return {"kind": KIND, "apiVersion": f"{_GROUP}/{which}", "request": asked}


def read(body: Any, which: str, uid: str) -> list[Any]:
    """The objects of a response; InvalidConversion if it has none."""
    said = body if isinstance(body, dict) else {}
    if which == "v1":
        found = (str(said.get("apiVersion", "")), str(said.get("kind", "")))
        if found != (f"{_GROUP}/v1", KIND):
            expected = shown_kind(f"{_GROUP}/v1", KIND)
            raise InvalidConversion(f"expected webhook response of {expected}, got {shown_kind(*found)}")
    response = said.get("response")
    if not isinstance(response, dict):
        raise InvalidConversion("no response provided")
    if which == "v1" and response.get("uid", "") != uid:
        told = gotext.quote(str(response.get("uid", "")))
        raise InvalidConversion(f"expected response.uid={gotext.quote(uid)}, got {told}")
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    if result.get("status") != "Success":
        message = str(result.get("message") or "")
        raise InvalidConversion(message or f"response.result.status was '{result.get('status', '')}', not 'Success'")
    converted = response.get("convertedObjects")
    return converted if isinstance(converted, list) else []


def adopt(original: Mapping[str, Any], converted: Any, api_version: str, place: int = 0) -> dict[str, Any]:
    """The converted object at a place with the metadata of the original; InvalidConversion if it is another object."""
    if not isinstance(converted, dict):
        raise InvalidConversion(f"invalid object at index {place}: it is not a map")
    found = str(converted.get("apiVersion", ""))
    if found != api_version:
        raise InvalidConversion(
            f"invalid object at index {place}: invalid groupVersion (expected {api_version}, received {found})"
        )
    if converted.get("kind") != original["kind"]:
        told = converted.get("kind", "")
        raise InvalidConversion(
            f"invalid object at index {place}: invalid kind (expected {original['kind']}, received {told})"
        )
    _check_identity(original["metadata"], converted.get("metadata"))
    return {**converted, "metadata": _metadata(original["metadata"], converted)}


def _check_identity(before: Mapping[str, Any], after: Any) -> None:
    given = after if isinstance(after, dict) else {}
    for name, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        wanted, found = before.get(name, ""), given.get(name) or ""
        if wanted != found:
            raise InvalidConversion(f"invalid object: must have the same {shown}: {wanted} != {found}")


def _metadata(before: Mapping[str, Any], converted: Mapping[str, Any]) -> dict[str, Any]:
    if "metadata" not in converted:
        raise InvalidConversion("invalid metadata: missing metadata in converted object")
    after = converted["metadata"]
    if not isinstance(after, dict):
        raise InvalidConversion(f"invalid metadata: invalid metadata of type {_go_type(after)} in converted object")
    kept: dict[str, Any] = json_values.copy(dict(before))
    for name in ("labels", "annotations"):
        given = after.get(name)
        if given is None:
            kept.pop(name, None)
            continue
        _check_map(name, given)
        wrong = _errors(name, given) if given != before.get(name) else []
        if wrong:
            raise InvalidConversion(f"invalid metadata: {fields.aggregate(wrong)}")
        kept[name] = given
    return kept


def _check_map(name: str, given: Any) -> None:
    if not isinstance(given, dict):
        why = f"invalid metadata.{name} of type {_go_type(given)} in converted object"
        raise InvalidConversion(f"invalid metadata: {why}")
    for key, value in given.items():
        if not isinstance(value, str):
            why = f"metadata.{name}[{key}] must be a string, but is {_go_type(value)} in converted object"
            raise InvalidConversion(f"invalid metadata: {why}")


def _errors(name: str, given: Mapping[str, str]) -> list[fields.FieldError]:
    metadata = fields.Path("metadata")
    if name == "labels":
        return validate_labels(given, metadata.child("labels"))
    return validate_annotations(given, metadata.child("annotation"))  # upstream's path


def shown_kind(api_version: str, kind: str) -> str:
    """A kind with its version, as Go prints it."""
    group, _, name = api_version.rpartition("/")
    return f"{group}/{name}, Kind={kind}"


def _go_type(value: Any) -> str:
    return _GO_TYPES.get(type(value), type(value).__name__)
