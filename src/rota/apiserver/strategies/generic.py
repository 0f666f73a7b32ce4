"""What every kind has in common, and all that kinds without rules of their own have.

A kind with rules of its own derives from `GenericStrategy`, adds to what these methods do, and is entered in `lookup`.
"""

from rota.api import fields, schemas
from rota.api.kinds import ResourceType
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import metadata


class GenericStrategy:
    """Rules by the shape of a kind alone: metadata, required fields, generation, and status behind its own door."""

    #: Whether `metadata.generation` counts the changes of what is wanted (all but metadata and status).
    counts_generations = False
    #: Whether a missing required field is refused by the generic check; off where the kind's own words are wanted.
    demands_required_fields = True

    def default(self, obj: Object, /) -> None:
        """Nothing is known that could be left out."""

    def default_status(self, obj: Object, /) -> None:
        """Whoever writes a status sends all of it."""

    def prepare_create(self, obj: Object, at: Attributes, /) -> None:
        """Status belongs to controllers; a new object has none."""
        if has_status(at.resource):
            obj.pop("status", None)
        if self.counts_generations:
            obj["metadata"]["generation"] = 1

    def prepare_update(self, new: Object, old: Object, at: Attributes, /) -> None:
        """Through the front door all but the status may change, through `status` only that (and metadata)."""
        if at.subresource:
            keep(new, old, except_for=("metadata", at.subresource))
        elif has_status(at.resource):
            take(new, old, "status")
        if self.counts_generations:
            self._count_generation(new, old)

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Metadata, and the fields that must be there."""
        return metadata.validate(obj["metadata"], at.resource) + self._missing(obj, at)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Metadata against its former self, and the fields that must be there."""
        return metadata.validate_update(new["metadata"], old["metadata"], at.resource) + self._missing(new, at)

    def _missing(self, obj: Object, at: Attributes) -> list[fields.FieldError]:
        model = at.resource.model
        return schemas.missing_fields(obj, model) if model and self.demands_required_fields else []

    def _count_generation(self, new: Object, old: Object) -> None:
        """A change of what is wanted is a new generation; so is the wish to delete (see the registry)."""
        before = old["metadata"].get("generation", 0)
        changed = any(
            new.get(name) != old.get(name) for name in {*new, *old} - {"metadata", "status", "apiVersion", "kind"}
        )
        new["metadata"]["generation"] = before + 1 if changed else before


class GenerationStrategy(GenericStrategy):
    """A generic kind whose controllers compare `observedGeneration`."""

    counts_generations = True


def has_status(resource: ResourceType) -> bool:
    """Whether the status is written through a door of its own."""
    return "status" in resource.subresources


def take(new: Object, old: Object, name: str) -> None:
    """Put back one top-level field as it was."""
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def keep(new: Object, old: Object, *, except_for: tuple[str, ...]) -> None:
    """Put back all top-level fields but these."""
    for name in {*new, *old}.difference(except_for):
        take(new, old, name)
