"""How override policies change a resource for a cluster.

Cluster-wide policies come first, then those of the resource's namespace; of each sort the closest match comes last, so
that it wins, and equals go by name. Within a rule overriders have a fixed order, of which the plain patches are last.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import yaml

from rota.api import meta
from rota.api.patches import json_patch
from rota.api.patches.errors import PatchError
from rota.federation.affinities import Affinity
from rota.federation.clusters import Cluster
from rota.federation.interpreters import trees
from rota.federation.policies import images, resource_selectors

Object: TypeAlias = Mapping[str, Any]
Resource: TypeAlias = dict[str, Any]

#: By kind: where its pod spec is.
_POD_SPECS: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": ("spec",),
    **dict.fromkeys(("ReplicaSet", "Deployment", "DaemonSet", "StatefulSet", "Job"), ("spec", "template", "spec")),
}


class CannotOverride(ValueError):
    """An overrider does not apply to the resource; the message says which."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A rule that was applied: the name of its policy and its overriders."""

    policy: str
    overriders: Object


@dataclass(frozen=True, slots=True)
class Overridden:
    """A resource as it is for one cluster, with the rules that made it so."""

    resource: Resource
    cluster_overrides: tuple[Applied, ...]
    overrides: tuple[Applied, ...]


def override(
    resource: Object, cluster: Cluster, policies: Iterable[Object], cluster_policies: Iterable[Object]
) -> Overridden:
    """Apply all rules that mean a resource in a cluster."""
    new = trees.changed(resource)
    cluster_wide = _rules(new, cluster, cluster_policies)
    for rule in cluster_wide:
        new = applied(new, rule.overriders)
    namespaced: tuple[Applied, ...] = ()
    namespace = meta.namespace(new)
    if namespace:
        own = [policy for policy in policies if meta.namespace(policy) == namespace]
        namespaced = _rules(new, cluster, own)
        for rule in namespaced:
            new = applied(new, rule.overriders)
    return Overridden(new, cluster_wide, namespaced)


def _rules(resource: Object, cluster: Cluster, policies: Iterable[Object]) -> tuple[Applied, ...]:
    ranked = []
    for policy in policies:
        spec: Object = policy.get("spec") or {}
        chosen = spec.get("resourceSelectors") or ()
        closeness = resource_selectors.best_match(resource, chosen) if chosen else resource_selectors.Match.KIND
        if closeness is not resource_selectors.Match.NONE:
            ranked.append((closeness, meta.name(policy), spec))
    ranked.sort(key=lambda one: (one[0], one[1]))
    return tuple(
        Applied(name, rule.get("overriders") or {})
        for _, name, spec in ranked
        for rule in spec.get("overrideRules") or [_old_form(spec)]
        if rule.get("targetCluster") is None or Affinity(rule["targetCluster"]).matches(cluster)
    )


def _old_form(spec: Object) -> Object:
    """The one rule of a policy in the form that upstream has given up."""
    return {"targetCluster": spec.get("targetCluster"), "overriders": spec.get("overriders") or {}}


def applied(resource: Resource, overriders: Object) -> Resource:
    """The resource after the overriders of one rule."""
    for one in overriders.get("imageOverrider") or ():
        resource = _image(resource, one)
    for member in ("command", "args"):
        for one in overriders.get(f"{member}Overrider") or ():
            resource = _command(resource, one, member)
    for member in ("labels", "annotations"):
        for one in overriders.get(f"{member}Overrider") or ():
            resource = _marks(resource, one, member)
    for one in overriders.get("fieldOverrider") or ():
        resource = _field(resource, one)
    plain: Resource = _patched(resource, [_operation(one, "path") for one in overriders.get("plaintext") or ()])
    return plain


def _operation(one: Object, path: str) -> dict[str, Any]:
    operator = one.get("operator") or ""
    found: dict[str, Any] = {"op": operator, "path": one.get(path) or ""}
    if operator != "remove":
        found["value"] = one.get("value")
    return found


def _patched(document: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    if not operations:
        return document
    try:
        return json_patch.apply(document, [dict(one) for one in operations])
    except PatchError as error:
        raise CannotOverride(str(error)) from error


def _image(resource: Resource, overrider: Object) -> Resource:
    predicate = overrider.get("predicate")
    if predicate is not None:
        path = predicate.get("path") or ""
        value = changed_image(_text_at(resource, path), overrider)
        if not path.startswith("/"):
            raise CannotOverride(f"the predicate path {path!r} of an image overrider must start with /")
        return _replaced(resource, [(path, value)])
    where = _POD_SPECS.get(resource.get("kind", ""))
    if where is None:
        return resource
    containers = trees.get(resource, *where, "containers") or ()
    prefix = "/".join(("", *where))
    return _replaced(
        resource,
        [
            (f"{prefix}/containers/{place}/image", changed_image(container.get("image") or "", overrider))
            for place, container in enumerate(containers)
        ],
    )


def _replaced(resource: Resource, values: Iterable[tuple[str, Any]]) -> Resource:
    new: Resource = _patched(resource, [{"op": "replace", "path": path, "value": value} for path, value in values])
    return new


def _text_at(resource: Object, path: str) -> str:
    """The text at a path whose steps are names and places of lists."""
    value: Any = resource
    for step in path.strip("/").split("/"):
        if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        elif isinstance(value, Mapping):
            value = value.get(step)
        else:
            value = None
    if not isinstance(value, str):
        raise CannotOverride(f"there is no text at {path}")
    return value


def changed_image(text: str, overrider: Object) -> str:
    """An image with one part changed; `add` appends to the part."""
    try:
        image = images.parse(text)
    except images.NoImage as error:
        raise CannotOverride(str(error)) from error
    component, operator, value = overrider.get("component"), overrider.get("operator"), overrider.get("value") or ""
    if component in ("Registry", "Repository"):
        part = "registry" if component == "Registry" else "repository"
        new = {"add": getattr(image, part) + value, "replace": value, "remove": ""}.get(operator or "")
        return str(image if new is None else replace(image, **{part: new}))
    if component == "Tag":
        if operator == "remove":
            return str(image.without_version())
        new = {"add": image.version + value, "replace": value}.get(operator or "")
        return str(image if new is None else image.with_version(new))
    raise CannotOverride(f"the component {component!r} of an image is not known; use Registry, Repository or Tag")


def _command(resource: Resource, overrider: Object, member: str) -> Resource:
    where = _POD_SPECS.get(resource.get("kind", ""))
    if where is None:
        return resource
    new = trees.changed(resource)
    for container in trees.get(new, *where, "containers") or ():
        if container.get("name") != overrider.get("containerName"):
            continue
        words = [str(word) for word in container.get(member) or ()]
        given = overrider.get("value") or ()
        if overrider.get("operator") == "add":
            words = [*words, *given]
        elif overrider.get("operator") == "remove":
            words = [word for word in words if word not in given]
        container[member] = words
    return new


def _marks(resource: Resource, overrider: Object, member: str) -> Resource:
    operator = overrider.get("operator")
    present = trees.get(resource, "metadata", member)
    new = trees.changed(resource)
    if operator == "add" and present is None and overrider.get("value"):
        trees.put(new, {}, "metadata", member)
    for key, value in (overrider.get("value") or {}).items():
        if operator in ("remove", "replace") and key not in (present or {}):
            continue
        if operator == "remove":
            trees.drop(new, "metadata", member, key)
        else:
            trees.put(new, value, "metadata", member, key)
    return new


def _field(resource: Resource, overrider: Object) -> Resource:
    """A text that holds JSON or YAML, patched inside."""
    path = overrider.get("fieldPath") or ""
    text = _text_by_pointer(resource, path)
    if overrider.get("yaml"):
        changed = _patched_yaml(text, [_operation(one, "subPath") for one in overrider["yaml"]])
    elif overrider.get("json"):
        changed = _patched_json(text, [_operation(one, "subPath") for one in overrider["json"]])
    else:
        changed = ""
    return _replaced(resource, [(path, changed)])


def _text_by_pointer(resource: Object, pointer: str) -> str:
    if not pointer.startswith("/"):
        raise CannotOverride(f"the path {pointer!r} of a field overrider must start with /")
    value: Any = resource
    for step in pointer.removeprefix("/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            raise CannotOverride(f"there is nothing at {pointer}")
    if not isinstance(value, str):
        raise CannotOverride(f"what is at {pointer} is no text")
    return value


def _patched_json(text: str, operations: Sequence[Mapping[str, Any]]) -> str:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise CannotOverride(f"the text is not JSON: {error}") from error
    return json.dumps(_patched_document(document, operations), separators=(",", ":"), ensure_ascii=False)


def _patched_yaml(text: str, operations: Sequence[Mapping[str, Any]]) -> str:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CannotOverride(f"the text is not YAML: {error}") from error
    found: str = yaml.safe_dump(_patched_document(document, operations), sort_keys=True, allow_unicode=True)
    return found


def _patched_document(document: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    if not isinstance(document, dict | list):
        raise CannotOverride("only an object or a list can be patched")
    return _patched(document, operations)
