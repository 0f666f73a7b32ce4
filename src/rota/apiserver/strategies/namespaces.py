"""The strategy of namespaces: they start active, end terminating, and are removed with the last of
`spec.finalizers`.
"""

from typing import Final

from rota.api import fields
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks, generic, metadata

NAME_LABEL: Final = "kubernetes.io/metadata.name"
FINALIZER: Final = "kubernetes"
_FINALIZERS: Final = fields.Path("spec").child("finalizers")
_UNQUALIFIED: Final = "name is neither a standard finalizer name nor is it fully qualified"


class NamespaceStrategy(generic.GenericStrategy):
    """Namespaces."""

    def default(self, obj: Object, /) -> None:
        """Set the name as a label, so that selectors can use it."""
        name = obj["metadata"].get("name")
        if name:
            obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), NAME_LABEL: name}

    def default_status(self, obj: Object, /) -> None:
        """The same label for updates of the status, and a phase."""
        self.default(obj)
        status = obj.setdefault("status", {})
        status["phase"] = status.get("phase") or "Active"

    def prepare_create(self, obj: Object, at: Attributes, /) -> None:
        """Active, with the finalizer that keeps it until it is empty."""
        finalizers = (obj.get("spec") or {}).get("finalizers") or []
        obj["spec"] = {"finalizers": finalizers if FINALIZER in finalizers else [*finalizers, FINALIZER]}
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, new: Object, old: Object, at: Attributes, /) -> None:
        """Only the subresource `finalize` changes the finalizers."""
        if at.subresource == "finalize":
            generic.keep(new, old, except_for=("metadata", "spec"))
        elif at.subresource == "status":
            generic.keep(new, old, except_for=("metadata", "status"))
        else:
            generic.keep(new, old, except_for=("metadata",))

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Metadata and finalizers."""
        return super().validate_create(obj, at) + _validate_finalizers(obj)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Metadata and finalizers, and that only deleted namespaces are terminating."""
        found = super().validate_update(new, old, at) + _validate_finalizers(new)
        if at.subresource == "status":
            phase, path = (new.get("status") or {}).get("phase", ""), fields.Path("status").child("Phase")
            deleted = bool(new["metadata"].get("deletionTimestamp"))
            if deleted and phase != "Terminating":
                why = "may only be 'Terminating' if `deletionTimestamp` is not empty"
                found.append(fields.invalid(path, phase, why))
            elif not deleted and phase == "Terminating":
                why = "may only be 'Active' if `deletionTimestamp` is empty"
                found.append(fields.invalid(path, phase, why))
        return found


def _validate_finalizers(namespace: Object) -> list[fields.FieldError]:
    found: list[fields.FieldError] = []
    for name in (namespace.get("spec") or {}).get("finalizers") or ():
        found += checks.label_key(name, _FINALIZERS)
        if "/" not in name and name not in metadata.STANDARD_FINALIZERS:
            found.append(fields.invalid(_FINALIZERS, name, _UNQUALIFIED))
    return found


def is_terminating(namespace: Object) -> bool:
    """Whether no object can be created in a namespace."""
    return bool(namespace["metadata"].get("deletionTimestamp"))


def terminating_message(name: str) -> str:
    """Upstream's message for such attempts."""
    return f"unable to create new content in namespace {name} because it is being terminated"
