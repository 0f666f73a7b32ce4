"""JSON patch (RFC 6902), by the `jsonpatch` library, with Kubernetes' limits and messages.

Operations are applied one after the other to a copy; the first that does not apply ends the whole patch. The library
has an operation of its own (`append`), which is refused like any other unknown one.
"""

from __future__ import annotations

import jsonpatch
import jsonpointer

from rota.api.patches.errors import (
    InapplicablePatch,
    MalformedPatch,
    PatchTestFailed,
    PatchTooLarge,
    refuses_deep_nesting,
)
from rota.api.patches.json_values import Json, JsonObject, copy, json_text, shown

#: As kube-apiserver (endpoints/handlers/patch.go).
MAX_OPERATIONS = 10_000
#: By how many bytes all `copy` operations together may make the document grow; as kube-apiserver (server/config.go).
MAX_COPIED_BYTES = 3 * 1024 * 1024

_OPERATIONS = {"add", "remove", "replace", "move", "copy", "test"}


@refuses_deep_nesting
def apply(document: Json, operations: Json) -> Json:
    """The document after all operations; neither argument is changed, and the result shares nothing with them."""
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise MalformedPatch("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > MAX_OPERATIONS:
        raise PatchTooLarge(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        )
    result = copy(document)
    copied = 0
    for operation in operations:
        kind = _kind(operation)
        if kind == "copy":
            copied += _size_of_source(result, operation)
            if copied > MAX_COPIED_BYTES:
                raise InapplicablePatch(
                    f"Unable to complete the copy, the accumulated size increase of copy is {copied}, "
                    f"exceeding the limit {MAX_COPIED_BYTES}"
                )
        result = _apply_one(result, operation, kind)
    return result


def _kind(operation: JsonObject) -> str:
    kind = operation.get("op")
    if kind not in _OPERATIONS:
        raise InapplicablePatch(f"Unexpected kind: {shown(kind) if kind is not None else 'unknown'}")
    assert isinstance(kind, str), "only known operations get here"
    for name in ("path", "from") if kind in {"move", "copy"} else ("path",):
        if not isinstance(operation.get(name), str):
            raise InapplicablePatch(f"{kind} operation failed to decode {name}: missing value")
    return kind


def _size_of_source(document: Json, operation: JsonObject) -> int:
    try:
        return len(json_text(jsonpointer.resolve_pointer(document, operation["from"])).encode())
    except jsonpointer.JsonPointerException:
        return 0  # the operation itself says what is wrong


def _apply_one(document: Json, operation: JsonObject, kind: str) -> Json:
    path = operation["path"]
    try:
        return jsonpatch.JsonPatch([operation]).apply(document, in_place=True)
    except jsonpatch.JsonPatchTestFailed as error:
        container = _container(document, path)
        if path and container is None:
            raise InapplicablePatch(f"test operation does not apply: is missing path: {path}: missing value") from error
        if isinstance(container, dict) and operation.get("value") is None and _key(path) not in container:
            return document  # what is missing is null
        raise PatchTestFailed(f"testing value {path} failed: test failed") from error
    except jsonpatch.InvalidJsonPatch as error:
        raise InapplicablePatch(f"error in {kind} for path: '{path}': {error}") from error
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
        raise InapplicablePatch(_explanation(document, operation, kind)) from error


def _explanation(document: Json, operation: JsonObject, kind: str) -> str:
    """Why an operation does not apply: the container is missing, or what should be in it."""
    path = operation["path"]
    if kind in {"move", "copy"}:
        source = operation["from"]
        if _container(document, source) is None:
            return f"{kind} operation does not apply: doc is missing from path: {source}: missing value"
        if _container(document, path) is None:
            return f"{kind} operation does not apply: doc is missing destination path: {path}: missing value"
        return f"error in {kind} for path: '{source}': Unable to {kind} nonexistent key: {_key(source)}: missing value"
    container = _container(document, path)
    if container is None:
        shown_path = path if kind == "replace" else f'"{path}"'
        return f"{kind} operation does not apply: doc is missing path: {shown_path}: missing value"
    if kind == "replace":
        return f"replace operation does not apply: doc is missing key: {path}: missing value"
    if isinstance(container, list):
        return (
            f"error in {kind} for path: '{path}': "
            f"Unable to access invalid index: {_key(path)}: invalid index referenced"
        )
    return f"error in {kind} for path: '{path}': Unable to {kind} nonexistent key: {_key(path)}: missing value"


def _container(document: Json, path: str) -> Json:
    """The map or list in which `path` ends; None if there is none."""
    try:
        container, _ = jsonpointer.JsonPointer(path).to_last(document)
    except jsonpointer.JsonPointerException:
        try:
            container = jsonpointer.resolve_pointer(document, path.rpartition("/")[0])
        except jsonpointer.JsonPointerException:
            return None
    return container if isinstance(container, dict | list) else None


def _key(path: str) -> str:
    return path.rpartition("/")[2]
