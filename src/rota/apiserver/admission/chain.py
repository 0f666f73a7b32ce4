"""All admission plugins of a server, in the order in which they run."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Final

from rota.api.identifiers import GroupResource
from rota.apiserver.admission import mutating_policies
from rota.apiserver.admission.batch import BatchRules
from rota.apiserver.admission.batch_class import BatchClass
from rota.apiserver.admission.creation_by_update import CreationByUpdate
from rota.apiserver.admission.deletion_reviews import DeletionReviews
from rota.apiserver.admission.escalation import Escalation
from rota.apiserver.admission.limit_ranger import RANGES, LimitBounds, LimitRanger
from rota.apiserver.admission.mutation_rounds import MutationRounds, Mutator
from rota.apiserver.admission.namespace_lifecycle import NAMESPACES, NamespaceLifecycle
from rota.apiserver.admission.node_capacity import NodeCapacity
from rota.apiserver.admission.node_restriction import NodeRestriction
from rota.apiserver.admission.node_taints import NotReadyTaint
from rota.apiserver.admission.pod_defaults import DefaultTolerations
from rota.apiserver.admission.pod_security import NOTHING_CONFIGURED, Configuration, PodSecurity
from rota.apiserver.admission.priority import CLASSES, Priority
from rota.apiserver.admission.process_security import ProcessSecurity
from rota.apiserver.admission.resource_quota import QUOTAS, ResourceQuota
from rota.apiserver.admission.reviewed_request import ReviewContext
from rota.apiserver.admission.runtime_classes import RUNTIMES, RuntimeClasses
from rota.apiserver.admission.service_accounts import ACCOUNTS, ServiceAccounts
from rota.apiserver.admission.service_addresses import ServiceAddresses
from rota.apiserver.admission.signers import SignerRights
from rota.apiserver.admission.tuning_approval import TuningApproval
from rota.apiserver.admission.unenforced import Unenforced
from rota.apiserver.admission.validating_policies import BINDINGS, POLICIES, ValidatingPolicies
from rota.apiserver.admission.webhook_table import MUTATING, VALIDATING
from rota.apiserver.admission.webhooks import ValidatingWebhooks
from rota.apiserver.authentication.removals import RemovalRecords
from rota.apiserver.authorization.chain import Authorization
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import Admission, Registry
from rota.apiserver.node_allocations.overcommit_guard import OvercommitGuard
from rota.apiserver.registry.leader_fencing import LeaderRecords
from rota.kit.clock import Clock

#: Kinds that plugins read on every request, and that are therefore cached.
FOLLOWED: Final = (
    *(NAMESPACES, RANGES, CLASSES, RUNTIMES, QUOTAS, ACCOUNTS, POLICIES, BINDINGS, MUTATING, VALIDATING),
    *(mutating_policies.POLICIES, mutating_policies.BINDINGS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionContext:
    """What the plugins of one server use."""

    copies: Mapping[GroupResource, WatchCache]
    authorization: Authorization
    clock: Clock
    #: Services get addresses of this network.
    network: IPv4Network
    #: Without it, nodes are not protected against overcommitment.
    overcommit_guard: OvercommitGuard | None
    #: Whether new nodes are tainted as not ready.
    taint_nodes: bool
    pod_security: Configuration = NOTHING_CONFIGURED
    #: Plugins of another package.
    further: tuple[Admission, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviews:
    """The policies and webhooks of users."""

    context: ReviewContext
    policies: ValidatingPolicies
    mutators: tuple[Mutator, ...]
    webhooks: ValidatingWebhooks


def rounds(
    context: AdmissionContext, registry: Registry, restriction: NodeRestriction, reviews: Reviews
) -> MutationRounds:
    """The plugins that may change an object, with the rules of users that change it after them."""
    copies = context.copies
    plugins: tuple[Admission, ...] = (
        restriction,
        *((NotReadyTaint(),) if context.taint_nodes else ()),
        NamespaceLifecycle(registry, copies[NAMESPACES]),
        BatchRules(registry, context.authorization),
        LimitRanger(registry, copies[RANGES]),
        ServiceAccounts(registry, copies[ACCOUNTS]),
        Priority(registry, copies[CLASSES]),
        DefaultTolerations(),
        RuntimeClasses(registry, copies[RUNTIMES]),
    )
    return MutationRounds(reviews.context, plugins, reviews.mutators)


def mutating(
    context: AdmissionContext, registry: Registry, rounds: MutationRounds, reviews: Reviews
) -> tuple[Admission, ...]:
    """The plugins that run before validation: those that change objects, then those that charge for the result."""
    guard = context.overcommit_guard
    return (
        rounds,
        ServiceAddresses(registry, context.network),
        *((NodeCapacity(registry, guard),) if guard is not None else ()),
        ResourceQuota(registry, context.copies[QUOTAS]),
        Escalation(context.authorization),
        LeaderRecords(),
        RemovalRecords(context.clock),
        *context.further,
        DeletionReviews((reviews.policies, reviews.webhooks)),
    )


def validating(context: AdmissionContext, registry: Registry, reviews: Reviews) -> tuple[Admission, ...]:
    """The plugins that run after validation."""
    return (
        CreationByUpdate(context.authorization),
        SignerRights(context.authorization),
        TuningApproval(context.authorization),
        Unenforced(),
        ProcessSecurity(),
        BatchClass(),
        LimitBounds(registry, context.copies[RANGES]),
        PodSecurity(registry, context.copies[NAMESPACES], context.pod_security),
        reviews.policies,
        reviews.webhooks,
    )
