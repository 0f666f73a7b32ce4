"""The query parameters of the API's operations.

kubectl looks for `fieldValidation` and `dryRun` on writes: without them it validates objects by itself, with an older
schema. The sets are those that upstream declares for each verb.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

Parameter: TypeAlias = dict[str, Any]


def _query(name: str, kind: str, description: str) -> Parameter:
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": {"type": kind},
    }


_PRETTY: Final = _query("pretty", "string", "If 'true', the answer is indented for people to read.")
_DRY_RUN: Final = _query(
    "dryRun", "string", "With the value All every step of the request is carried out except storing its result."
)
_FIELD_MANAGER: Final = _query(
    "fieldManager",
    "string",
    "The field manager that is recorded in managedFields: up to 128 printable characters. Required to apply.",
)
_FIELD_VALIDATION: Final = _query(
    "fieldValidation",
    "string",
    "What happens to unknown and duplicate fields of the body: Ignore drops them, Warn (the default) drops them with a "
    "warning, Strict refuses the request.",
)
_FORCE: Final = _query(
    "force", "boolean", "Take over fields that other managers own. Only for applying; it must not be set otherwise."
)
_GRACE: Final = _query(
    "gracePeriodSeconds",
    "integer",
    "How many seconds the object may take to stop before it is deleted; 0 deletes it at once, none means the default.",
)
_PROPAGATION: Final = _query(
    "propagationPolicy",
    "string",
    "What happens to objects that this one owns: Orphan leaves them, Background deletes them afterwards, Foreground "
    "deletes them first.",
)
_ORPHANS: Final = _query("orphanDependents", "boolean", "Superseded by propagationPolicy.")
_SELECTION: Final = (
    _query("labelSelector", "string", "Only objects whose labels match this selector."),
    _query("fieldSelector", "string", "Only objects whose fields match this selector."),
    _query("limit", "integer", "At most this many objects; if there are more, the answer has a continue token."),
    _query("continue", "string", "Go on with a list where the answer with this token ended."),
    _query("resourceVersion", "string", "Which state of the data the answer may or must be of."),
    _query("resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan."),
    _query("timeoutSeconds", "integer", "How long the request may take, whether or not it is complete."),
)
_WATCHING: Final = (
    _query("watch", "boolean", "Stream the changes of the listed objects instead of listing them."),
    _query("allowWatchBookmarks", "boolean", "Send events that only tell how far the stream has come."),
    _query("sendInitialEvents", "boolean", "Begin the stream with the present objects and a bookmark after them."),
)

_WRITING: Final = (_PRETTY, _DRY_RUN, _FIELD_MANAGER, _FIELD_VALIDATION)
_DELETING: Final = (_PRETTY, _DRY_RUN, _GRACE, _ORPHANS, _PROPAGATION)

#: By the value of `x-kubernetes-action`.
OF_ACTION: Final[Mapping[str, tuple[Parameter, ...]]] = {
    "get": (_PRETTY,),
    "list": (_PRETTY, *_SELECTION, *_WATCHING),
    "post": _WRITING,
    "put": _WRITING,
    "patch": (*_WRITING, _FORCE),
    "delete": _DELETING,
    "deletecollection": (*_DELETING, *_SELECTION),
}

NAMESPACE: Final[Parameter] = {
    "name": "namespace",
    "in": "path",
    "description": "The namespace of the object.",
    "required": True,
    "schema": {"type": "string"},
}


def name_of(kind: str) -> Parameter:
    """The path parameter that names an object."""
    return {
        "name": "name",
        "in": "path",
        "description": f"The name of the {kind}.",
        "required": True,
        "schema": {"type": "string"},
    }
