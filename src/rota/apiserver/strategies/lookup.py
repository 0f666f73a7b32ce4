"""Which strategy a kind has.

A kind with rules of its own is entered in `SPECIAL` by its group and plural; all versions of it share the strategy.
"""

from collections.abc import Mapping
from typing import Final

from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.apiserver.contract import Strategy
from rota.apiserver.strategies.custom import CustomStrategy
from rota.apiserver.strategies.definitions import DefinitionStrategy
from rota.apiserver.strategies.generic import GenerationStrategy, GenericStrategy
from rota.apiserver.strategies.pods import PodStrategy

SPECIAL: Final[Mapping[GroupResource, Strategy]] = {
    GroupResource("", "pods"): PodStrategy(),
    GroupResource("apiextensions.k8s.io", "customresourcedefinitions"): DefinitionStrategy(),
}

#: Kinds with generic rules whose generation is counted.
_COUNTED: Final = frozenset(
    {
        GroupResource("networking.k8s.io", "ingresses"),
        GroupResource("networking.k8s.io", "ingressclasses"),
        GroupResource("networking.k8s.io", "networkpolicies"),
        GroupResource("discovery.k8s.io", "endpointslices"),
        GroupResource("scheduling.k8s.io", "podgroups"),
        GroupResource("scheduling.k8s.io", "workloads"),
        GroupResource("resource.k8s.io", "resourceslices"),
    }
)
_GENERIC: Final = GenericStrategy()
_COUNTING: Final = GenerationStrategy()
_CUSTOM: Final = CustomStrategy()


def strategy(resource: ResourceType) -> Strategy:
    """The rules for objects of this kind."""
    special = SPECIAL.get(resource.group_resource)
    if special is not None:
        return special
    if resource.custom:
        return _CUSTOM
    return _COUNTING if resource.group_resource in _COUNTED else _GENERIC
