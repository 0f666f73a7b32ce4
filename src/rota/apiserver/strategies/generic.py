"""The rules that all kinds share, and the only ones of kinds without a strategy of their own.

A strategy of one kind derives from `GenericStrategy`, extends its methods, and is registered in `lookup`.
"""

from rota.api import fields, schemas
from rota.api.kinds import ResourceType
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import metadata


class GenericStrategy:
    """Rules by the shape of a kind alone: metadata, required fields, generation, and the status subresource."""

    #: Whether `metadata.generation` counts the changes of everything but metadata and status.
    counts_generations = False
    #: Whether the generic check refuses missing required fields; off where the kind has its own messages.
    demands_required_fields = True

    def default(self, obj: Object, /) -> None:
        """No defaults."""

    def default_status(self, obj: Object, /) -> None:
        """No defaults: clients write the whole status."""

    def prepare_create(self, obj: Object, at: Attributes, /) -> None:
        """Remove the status: controllers write it later."""
        if has_status(at.resource):
            obj.pop("status", None)
        if self.counts_generations:
            obj["metadata"]["generation"] = 1

    def prepare_update(self, new: Object, old: Object, at: Attributes, /) -> None:
        """An update of the main resource keeps the status, one of `status` keeps everything else but metadata."""
        if at.subresource:
            keep(new, old, except_for=("metadata", at.subresource))
        elif has_status(at.resource):
            take(new, old, "status")
        if self.counts_generations:
            self._count_generation(new, old)

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Metadata, and required fields."""
        return metadata.validate(obj["metadata"], at.resource) + self._missing(obj, at)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Metadata compared with the old one, and required fields."""
        return metadata.validate_update(new["metadata"], old["metadata"], at.resource) + self._missing(new, at)

    def _missing(self, obj: Object, at: Attributes) -> list[fields.FieldError]:
        model = at.resource.model
        return schemas.missing_fields(obj, model) if model and self.demands_required_fields else []

    def _count_generation(self, new: Object, old: Object) -> None:
        """Increase the generation if the spec changed; a deletion does so too (see the registry)."""
        before = old["metadata"].get("generation", 0)
        changed = any(
            new.get(name) != old.get(name) for name in {*new, *old} - {"metadata", "status", "apiVersion", "kind"}
        )
        new["metadata"]["generation"] = before + 1 if changed else before


class GenerationStrategy(GenericStrategy):
    """A generic kind whose controllers compare `observedGeneration`."""

    counts_generations = True


def has_status(resource: ResourceType) -> bool:
    """Whether the kind has the status subresource."""
    return "status" in resource.subresources


def take(new: Object, old: Object, name: str) -> None:
    """Restore one top-level field."""
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def keep(new: Object, old: Object, *, except_for: tuple[str, ...]) -> None:
    """Restore all top-level fields but these."""
    for name in {*new, *old}.difference(except_for):
        take(new, old, name)
