"""Kinds of the group `rota.dev`, in the form of the generated models."""

# ruff: noqa: N815, UP006, UP035, UP045 - fields are named as on the wire, annotations written as the generated ones are
from typing import List, Optional

from rota.api.models import core_v1, meta_v1  # type: ignore[attr-defined]  # found through the package's __path__
from rota.api.models._schema import DictMixin

__all__ = ["BindingBatch", "BindingVerdict", "core_v1", "meta_v1"]


class BindingVerdict(DictMixin):
    r"""What became of one binding of a batch.

    **parameters**

    * **name** ``str`` - The pod.
    * **namespace** ``str`` - The pod's namespace.
    * **status** ``Optional[meta_v1.Status]`` - What a binding of this pod alone would have been answered with.
    """

    name: "str"
    namespace: "str"
    status: "Optional[meta_v1.Status]" = None


class BindingBatch(DictMixin):
    r"""Many bindings in one request. Each pod gets a verdict of its own; an atomic batch binds all of its pods or none.

    **parameters**

    * **bindings** ``List[core_v1.Binding]`` - What to bind where; each names the namespace and the name of its pod.
    * **apiVersion** ``Optional[str]`` - The version of this object: rota.dev/v1alpha1.
    * **atomic** ``Optional[bool]`` - Whether all pods are bound or none, as the members of a gang are.
    * **bound** ``Optional[int]`` - How many pods were bound; set by the server.
    * **kind** ``Optional[str]`` - The kind of this object: BindingBatch.
    * **metadata** ``Optional[meta_v1.ObjectMeta]`` - Not used: batches are not stored.
    * **verdicts** ``Optional[List[BindingVerdict]]`` - One for each binding, in their order; set by the server.
    """

    bindings: "List[core_v1.Binding]"
    apiVersion: "Optional[str]" = None
    atomic: "Optional[bool]" = None
    bound: "Optional[int]" = None
    kind: "Optional[str]" = None
    metadata: "Optional[meta_v1.ObjectMeta]" = None
    verdicts: "Optional[List[BindingVerdict]]" = None
