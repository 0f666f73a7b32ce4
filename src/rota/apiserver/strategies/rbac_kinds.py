"""The strategies of RBAC kinds: required parts of rules, and an immutable roleRef."""

from typing import Final

from rota.api import fields, names
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks
from rota.apiserver.strategies.generic import GenericStrategy

_GROUP: Final = "rbac.authorization.k8s.io"
_KINDS: Final = ("ServiceAccount", "User", "Group")


class RoleStrategy(GenericStrategy):
    """Roles and ClusterRoles."""

    demands_required_fields = False

    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced: Final = namespaced

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Rules."""
        return super().validate_create(obj, at) + self._validate(obj)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Rules."""
        return super().validate_update(new, old, at) + self._validate(new)

    def _validate(self, obj: Object) -> list[fields.FieldError]:
        found = []
        for position, rule in enumerate(obj.get("rules") or ()):
            path = fields.Path("rules").index(position)
            if not rule.get("verbs"):
                found.append(fields.required(path.child("verbs"), "verbs must contain at least one value"))
            if rule.get("nonResourceURLs"):
                if self._namespaced:
                    why = "namespaced rules cannot apply to non-resource URLs"
                    found.append(fields.invalid(path.child("nonResourceURLs"), rule["nonResourceURLs"], why))
                if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                    why = "rules cannot apply to both regular resources and non-resource URLs"
                    found.append(fields.invalid(path.child("nonResourceURLs"), rule["nonResourceURLs"], why))
                continue
            if not rule.get("apiGroups"):
                why = "resource rules must supply at least one api group"
                found.append(fields.required(path.child("apiGroups"), why))
            if not rule.get("resources"):
                why = "resource rules must supply at least one resource"
                found.append(fields.required(path.child("resources"), why))
        return found


class RoleBindingStrategy(GenericStrategy):
    """RoleBindings and ClusterRoleBindings."""

    demands_required_fields = False

    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced: Final = namespaced

    def default(self, obj: Object, /) -> None:
        """The API group of roles and subjects."""
        reference = obj.setdefault("roleRef", {})
        if not reference.get("apiGroup"):
            reference["apiGroup"] = _GROUP
        for subject in obj.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in {"User", "Group"}:
                subject["apiGroup"] = _GROUP

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Role and subjects."""
        return super().validate_create(obj, at) + self._validate(obj)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Role and subjects; the role is immutable."""
        found = super().validate_update(new, old, at) + self._validate(new)
        if new.get("roleRef") != old.get("roleRef"):
            # upstream prints its internal type of the reference, whose fields have other names
            reference = new.get("roleRef") or {}
            shown = {name: reference.get(name[0].lower() + name[1:], "") for name in ("Kind", "Name")}
            shown = {"APIGroup": reference.get("apiGroup", ""), **shown}
            found.append(fields.invalid(fields.Path("roleRef"), shown, "cannot change roleRef"))
        return found

    def _validate(self, obj: Object) -> list[fields.FieldError]:
        reference, path = obj.get("roleRef") or {}, fields.Path("roleRef")
        found: list[fields.FieldError] = []
        if reference.get("apiGroup") and reference["apiGroup"] != _GROUP:
            found.append(fields.not_supported(path.child("apiGroup"), reference["apiGroup"], [_GROUP]))
        kinds = ["Role", "ClusterRole"] if self._namespaced else ["ClusterRole"]
        if reference.get("kind") not in kinds:
            found.append(fields.not_supported(path.child("kind"), reference.get("kind", ""), kinds))
        if not reference.get("name"):
            found.append(fields.required(path.child("name")))
        else:
            name = reference["name"]
            found += checks.messages(names.check_path_segment(name), name, path.child("name"))
        for position, subject in enumerate(obj.get("subjects") or ()):
            at = fields.Path("subjects").index(position)
            if not subject.get("name"):
                found.append(fields.required(at.child("name")))
            if subject.get("kind") not in _KINDS:
                found.append(fields.not_supported(at.child("kind"), subject.get("kind", ""), _KINDS))
            if not self._namespaced and subject.get("kind") == "ServiceAccount" and not subject.get("namespace"):
                found.append(fields.required(at.child("namespace")))
        return found
