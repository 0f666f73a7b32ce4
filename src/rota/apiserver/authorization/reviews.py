"""SubjectAccessReview and its relatives, answered by the server's authorizers.

`kubectl auth can-i` posts these; nothing is stored. Rules and messages are upstream's (`pkg/registry/authorization`,
`pkg/apis/authorization/validation`, 1.36).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from rota.api import errors, fields, fieldselectors
from rota.api.identifiers import GroupKind, GroupResource
from rota.apiserver.authorization.chain import Authorization
from rota.apiserver.authorization.nodes import identity
from rota.apiserver.authorization.rules import Rule
from rota.apiserver.interfaces import (
    Decision,
    Object,
    Question,
    Registry,
    Reply,
    SubresourceHandler,
    SubresourceRequest,
    User,
)

_GROUP: Final = "authorization.k8s.io"
#: Upstream's error has lost the kind by then.
_KIND: Final = GroupKind(_GROUP, "")
_SPEC: Final = fields.Path("spec")


def handlers(authorization: Authorization) -> Mapping[tuple[GroupResource, str], SubresourceHandler]:
    """The handlers of the kinds of this group."""
    return {
        (GroupResource(_GROUP, "selfsubjectaccessreviews"), ""): _SelfAccess(authorization),
        (GroupResource(_GROUP, "subjectaccessreviews"), ""): _Access(authorization),
        (GroupResource(_GROUP, "localsubjectaccessreviews"), ""): _LocalAccess(authorization),
        (GroupResource(_GROUP, "selfsubjectrulesreviews"), ""): _SelfRules(authorization),
    }


class _Review:
    """Whether a user may do something."""

    def __init__(self, authorization: Authorization) -> None:
        self._authorization: Final = authorization

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply:
        """See `SubresourceHandler.handle`."""
        review = request.body
        assert review is not None, "reviews are posted"
        spec: Object = review.get("spec") or {}
        found = self._validate(review, spec, request.at.namespace)
        if found:
            raise errors.invalid(_KIND, "", found)
        verdict = await self._authorization.authorize(_question(spec, self._user(spec, request.at.user)))
        status: Object = {"allowed": verdict.allowed}
        if verdict.decision is Decision.DENIED:
            status["denied"] = True
        if verdict.reason:
            status["reason"] = verdict.reason
        return Reply(object={**review, "status": status}, code=201)

    def _user(self, spec: Mapping[str, Any], asker: User) -> User:
        extra = {name: tuple(values or ()) for name, values in (spec.get("extra") or {}).items()}
        return User(
            name=spec.get("user") or "", uid=spec.get("uid") or "", groups=tuple(spec.get("groups") or ()), extra=extra
        )

    def _validate(self, review: Object, spec: Object, namespace: str) -> list[fields.FieldError]:
        found = _validate_attributes(spec)
        if not spec.get("user") and not spec.get("groups"):
            why = "at least one of user or group must be specified"
            found.append(fields.invalid(_SPEC.child("user"), spec.get("user") or "", why))
        return found + _validate_selectors(spec)


class _Access(_Review):
    """About any user, in any namespace."""

    def _validate(self, review: Object, spec: Object, namespace: str) -> list[fields.FieldError]:
        return super()._validate(review, spec, namespace) + _validate_empty(review)


class _LocalAccess(_Review):
    """About any user, in one namespace."""

    def _validate(self, review: Object, spec: Object, namespace: str) -> list[fields.FieldError]:
        if (review.get("metadata") or {}).get("namespace") not in {None, "", namespace}:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        found = super()._validate(review, spec, namespace)
        attributes = spec.get("resourceAttributes")
        if attributes is not None and (attributes.get("namespace") or "") != namespace:
            where = fields.Path("spec.resourceAttributes.namespace")
            found.append(fields.invalid(where, attributes.get("namespace") or "", "must match metadata.namespace"))
        if spec.get("nonResourceAttributes") is not None:
            where = fields.Path("spec.nonResourceAttributes")
            why = "disallowed on this kind of request"
            found.append(fields.invalid(where, _as_go(spec["nonResourceAttributes"]), why))
        return found


class _SelfAccess(_Review):
    """About the user of the request."""

    def _user(self, spec: Mapping[str, Any], asker: User) -> User:
        return asker

    def _validate(self, review: Object, spec: Object, namespace: str) -> list[fields.FieldError]:
        return _validate_attributes(spec) + _validate_selectors(spec) + _validate_empty(review)


class _SelfRules:
    """What the user of the request may do in a namespace."""

    def __init__(self, authorization: Authorization) -> None:
        self._authorization: Final = authorization

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply:
        """See `SubresourceHandler.handle`."""
        assert request.body is not None, "reviews are posted"
        namespace = (request.body.get("spec") or {}).get("namespace")
        if not namespace:
            raise errors.bad_request("no namespace on request")
        user = request.at.user
        await self._authorization.catch_up(user)
        found, problems = self._authorization.policy.rules_for(user, namespace)
        is_node = identity.node_of(user) is not None
        if is_node:
            problems = ["node authorizer does not support user rule resolution", *problems]
        status: Object = {
            "resourceRules": [_resource_rule(rule) for rule in _distinct(found) if rule.resources],
            "nonResourceRules": [
                {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.paths)}
                for rule in _distinct(found)
                if rule.paths
            ],
            "incomplete": is_node,
        }
        if problems:
            status["evaluationError"] = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        return Reply(object={**request.body, "spec": {}, "status": status}, code=201)


def _distinct(rules: Sequence[Rule]) -> list[Rule]:
    """The rules without what an earlier one grants in the same words: several roles grant the same paths.

    Clients show a row for each resource and path, so a duplicate would be shown twice.
    """
    granted: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    found = []
    for rule in rules:
        names = tuple(sorted(rule.names))
        new_paths = tuple(one for one in rule.paths if not _covered(granted, ("/", one, ()), rule.verbs))
        covered = {
            one: [_covered(granted, (group, one, names), rule.verbs) for group in rule.groups] for one in rule.resources
        }
        new_resources = tuple(one for one in dict.fromkeys(rule.resources) if not all(covered[one]))
        if new_paths or new_resources:
            found.append(msgspec.structs.replace(rule, paths=new_paths, resources=new_resources))
    return found


def _covered(
    granted: dict[tuple[str, str, tuple[str, ...]], set[str]],
    what: tuple[str, str, tuple[str, ...]],
    verbs: Sequence[str],
) -> bool:
    """Whether all verbs are granted already; records them as granted."""
    known = granted.setdefault(what, set())
    covered = bool(known) and ("*" in known or known.issuperset(verbs))
    known.update(verbs)
    return covered


def _resource_rule(rule: Rule) -> Object:
    wire: Object = {"verbs": list(rule.verbs), "apiGroups": list(rule.groups), "resources": list(rule.resources)}
    return wire | ({"resourceNames": list(rule.names)} if rule.names else {})


def _question(spec: Mapping[str, Any], user: User) -> Question:
    pages = spec.get("nonResourceAttributes")
    if pages is not None:
        return Question(user=user, verb=pages.get("verb") or "", path=pages.get("path") or "")
    asked = spec["resourceAttributes"]
    return Question(
        user=user,
        verb=asked.get("verb") or "",
        group=asked.get("group") or "",
        resource=asked.get("resource") or "",
        subresource=asked.get("subresource") or "",
        namespace=asked.get("namespace") or "",
        name=asked.get("name") or "",
        fields=_field_selector(asked.get("fieldSelector") or {}),
    )


def _field_selector(wire: Mapping[str, Any]) -> fieldselectors.FieldSelector:
    """The field requirements; one that is not understood limits nothing, so that it never grants anything."""
    try:
        raw = fieldselectors.parse(wire.get("rawSelector") or "")
    except fieldselectors.FieldSelectorError:
        raw = fieldselectors.EVERYTHING
    terms = [
        fieldselectors.Term(one.get("key") or "", one["values"][0], equal=one["operator"] == "In")
        for one in wire.get("requirements") or ()
        if one.get("operator") in {"In", "NotIn"} and len(one.get("values") or ()) == 1
    ]
    return fieldselectors.FieldSelector((*raw.terms, *terms))


def _validate_attributes(spec: Mapping[str, Any]) -> list[fields.FieldError]:
    resource, pages = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and pages is not None:
        why = "cannot be specified in combination with resourceAttributes"
        return [fields.invalid(_SPEC.child("nonResourceAttributes"), _as_go(pages), why)]
    if resource is None and pages is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [fields.invalid(_SPEC.child("resourceAttributes"), fields.Literal("null"), why)]
    return []


def _as_go(pages: Mapping[str, Any]) -> Object:
    """Attributes of a path as upstream's type prints them in errors."""
    return {"Path": pages.get("path") or "", "Verb": pages.get("verb") or ""}


def _validate_selectors(spec: Mapping[str, Any]) -> list[fields.FieldError]:
    found = []
    for kind in ("fieldSelector", "labelSelector"):
        selector = (spec.get("resourceAttributes") or {}).get(kind)
        if selector is None:
            continue
        path = fields.Path("spec.resourceAttributes").child(kind)
        raw, requirements = selector.get("rawSelector"), selector.get("requirements")
        if raw and requirements:
            why = "may not specified at the same time as requirements"
            found.append(fields.invalid(path.child("rawSelector"), raw, why))
        if not raw and not requirements:
            why = f"when {path} is specified, requirements or rawSelector is required"
            found.append(fields.required(path.child("requirements"), why))
    return found


def _validate_empty(review: Mapping[str, Any]) -> list[fields.FieldError]:
    metadata = {name: value for name, value in (review.get("metadata") or {}).items() if value}
    metadata.pop("managedFields", None)
    return [fields.invalid(fields.Path("metadata"), metadata, "must be empty")] if metadata else []
