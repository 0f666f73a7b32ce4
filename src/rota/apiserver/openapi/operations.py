"""The paths of a resource with the operations on them.

`kubectl explain` finds the kind of a resource by the extensions of its operations: the action and the group, version
and kind. Identifiers of operations follow upstream's pattern, from which client generators make method names.
Subresources that connect (exec, log) have no schema and are not described.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.api.identifiers import GroupVersionKind
from rota.api.kinds import ResourceType
from rota.apiserver.openapi import components, custom_components, parameters
from rota.apiserver.openapi.components import Schema

Operation: TypeAlias = dict[str, Any]
PathItem: TypeAlias = dict[str, Any]

_OBJECT_TYPES: Final = ("application/json", "application/yaml")
_PATCH_TYPES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
)
#: Only for kinds whose types say how their lists merge.
_STRATEGIC: Final = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verb:
    """How a verb of the API is written in OpenAPI."""

    method: str
    action: str
    #: The prefix of the operation's identifier, and what follows the group in it.
    prefix: str
    words: str
    middle: str = ""


_ON_COLLECTION: Final = {
    "list": _Verb(method="get", action="list", prefix="list", words="list or watch objects of the kind"),
    "create": _Verb(method="post", action="post", prefix="create", words="create"),
    "deletecollection": _Verb(
        method="delete",
        action="deletecollection",
        prefix="delete",
        middle="Collection",
        words="delete a collection of",
    ),
}
_ON_OBJECT: Final = {
    "get": _Verb(method="get", action="get", prefix="read", words="read"),
    "update": _Verb(method="put", action="put", prefix="replace", words="replace"),
    "patch": _Verb(method="patch", action="patch", prefix="patch", words="change parts of"),
    "delete": _Verb(method="delete", action="delete", prefix="delete", words="delete"),
    "create": _Verb(method="post", action="post", prefix="create", words="create"),
}


def paths_of(resource: ResourceType) -> dict[str, PathItem]:
    """The paths of a resource and its subresources, by their templates."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    own = f"{root}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
    subject = _Subject(resource=resource, kind=resource.gvk, component=custom_components.component_name(resource))
    found = {own: _item(subject, _verbs(_ON_COLLECTION, resource.verbs))}
    single = f"{own}/{{name}}"
    # kinds that can only be created are created in their collection
    on_object = tuple(verb for verb in resource.verbs if verb != "create")
    found[single] = _item(subject, _verbs(_ON_OBJECT, on_object), named=True)
    for part in resource.subresources.values():
        shown = custom_components.part_name(resource, part)
        if shown is not None:
            of_part = _Subject(resource=resource, kind=part.kind, component=shown, subresource=part.name)
            found[f"{single}/{part.name}"] = _item(of_part, _verbs(_ON_OBJECT, part.verbs), named=True)
    if resource.namespaced and "list" in resource.verbs:
        everywhere = _operation(subject, _ON_COLLECTION["list"], suffix="ForAllNamespaces")
        found[f"{root}/{resource.plural}"] = {"get": everywhere}
    return {path: item for path, item in found.items() if any(method in item for method in _METHODS)}


_METHODS: Final = ("get", "put", "post", "delete", "patch")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """What an operation is about."""

    resource: ResourceType
    kind: GroupVersionKind
    component: str
    subresource: str = ""

    @property
    def tag(self) -> str:
        """Group and version in one word: `core_v1`, `apps_v1`, `shopExampleCom_v1`."""
        return f"{_word(self.resource.group)}_{self.resource.version}"


def _verbs(known: Mapping[str, _Verb], verbs: tuple[str, ...]) -> list[_Verb]:
    return [verb for name, verb in known.items() if name in verbs]


def _item(subject: _Subject, verbs: list[_Verb], *, named: bool = False) -> PathItem:
    resource = subject.resource
    common = [parameters.name_of(resource.kind)] if named else []
    if resource.namespaced:
        common.append(parameters.NAMESPACE)
    scope = "Namespaced" if resource.namespaced else ""
    operations = {verb.method: _operation(subject, verb, scope=scope) for verb in verbs}
    return {**operations, **({"parameters": common} if common else {})}


def _operation(subject: _Subject, verb: _Verb, *, scope: str = "", suffix: str = "") -> Operation:
    resource = subject.resource
    group = _capitalised(_word(resource.group)) + _capitalised(resource.version)
    what = f"{scope}{resource.kind}{_capitalised(subject.subresource)}{suffix}"
    of_part = f"the {subject.subresource} of " if subject.subresource else ""
    return {
        "tags": [subject.tag],
        "description": f"{verb.words} {of_part}{resource.kind}",
        "operationId": f"{verb.prefix}{group}{verb.middle}{what}",
        "parameters": list(parameters.OF_ACTION[verb.action]),
        **_request(subject, verb),
        "responses": _responses(subject, verb),
        "x-kubernetes-action": verb.action,
        "x-kubernetes-group-version-kind": gvk(subject.kind),
    }


def gvk(kind: GroupVersionKind) -> dict[str, str]:
    """Group, version and kind as an extension holds them."""
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _request(subject: _Subject, verb: _Verb) -> Operation:
    match verb.action:
        case "post" | "put":
            content = _content(_OBJECT_TYPES, components.reference(subject.component))
            return {"requestBody": {"content": content, "required": True}}
        case "patch":
            types = _PATCH_TYPES if subject.resource.custom else (*_PATCH_TYPES, _STRATEGIC)
            content = _content(types, components.reference(components.PATCH))
            return {"requestBody": {"content": content, "required": True}}
        case "delete" | "deletecollection":
            return {
                "requestBody": {"content": _content(_OBJECT_TYPES, components.reference(components.DELETE_OPTIONS))}
            }
    return {}


def _responses(subject: _Subject, verb: _Verb) -> dict[str, Any]:
    match verb.action:
        case "list":
            shown = components.reference(custom_components.list_name(subject.resource))
        case "delete" | "deletecollection":
            shown = components.reference(components.STATUS)
            if verb.action == "delete":
                # a terminating object is returned itself
                shown = {"anyOf": [shown, components.reference(subject.component)]}
        case _:
            shown = components.reference(subject.component)
    codes = {"200": "OK"} | {code: _CODES[code] for code in _MORE_CODES.get(verb.action, ())}
    answers = {code: {"description": text, "content": _content(_OBJECT_TYPES, shown)} for code, text in codes.items()}
    refusal = _content(_OBJECT_TYPES, components.reference(components.STATUS))
    return {**answers, "default": {"description": "The request is refused.", "content": refusal}}


_CODES: Final = {"201": "Created", "202": "Accepted"}
_MORE_CODES: Final = {"post": ("201", "202"), "put": ("201",), "patch": ("201",), "delete": ("202",)}


def _content(media_types: tuple[str, ...], schema: Schema) -> dict[str, Any]:
    return {media_type: {"schema": schema} for media_type in media_types}


def _word(group: str) -> str:
    """A group as one word, as upstream writes it: `rbacAuthorization` for `rbac.authorization.k8s.io`."""
    first, *others = (group or "core").removesuffix(".k8s.io").replace("-", ".").split(".")
    return first + "".join(map(_capitalised, others))


def _capitalised(word: str) -> str:
    return word[:1].upper() + word[1:]
