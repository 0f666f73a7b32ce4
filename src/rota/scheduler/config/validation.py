"""Validation of a configuration, except for the plugins of its profiles.

Ranges and conditions are kube-scheduler's (`pkg/scheduler/apis/config/validation`, 1.36); the messages are our own.
"""

from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from rota.api import names
from rota.scheduler.config import documents
from rota.scheduler.config.durations import Duration
from rota.scheduler.config.faults import Fault
from rota.scheduler.config.wire import Extender, KubeSchedulerConfiguration, LeaderElectionConfiguration

#: The stock scheduler samples nodes to save time. Rota scores all nodes at once, which costs less than sampling.
_SCORE_ALL: Final = (0, 100)


def faults(config: KubeSchedulerConfiguration) -> Iterator[Fault]:
    """Yield everything that is wrong with the settings around the profiles' plugins."""
    if config.parallelism <= 0:
        yield Fault("parallelism", f"{config.parallelism} must be greater than 0")
    yield from _percentage_faults(config.percentage_of_nodes_to_score, path="percentageOfNodesToScore")
    initial, longest = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        yield Fault("podInitialBackoffSeconds", f"{initial} must be greater than 0")
    if longest < initial:
        yield Fault("podMaxBackoffSeconds", f"{longest} must not be less than podInitialBackoffSeconds ({initial})")
    if config.client_connection.burst < 0:
        yield Fault("clientConnection.burst", f"{config.client_connection.burst} must not be negative")
    yield from (fault.below("leaderElection") for fault in _leader_election_faults(config.leader_election))
    yield from _profile_faults(config)
    yield from _extender_faults(config.extenders)


def _percentage_faults(value: int, *, path: str) -> Iterator[Fault]:
    if not 0 <= value <= 100:
        yield Fault(path, f"{value} is not in 0..100")
    elif value not in _SCORE_ALL:
        yield Fault(path, f"{value} is not supported: all nodes are scored in one pass; remove it, or write 100")


def _profile_faults(config: KubeSchedulerConfiguration) -> Iterator[Fault]:
    seen: dict[str, str] = {}
    for path, profile in documents.indexed("profiles", config.profiles):
        name = profile.scheduler_name
        if not name:
            yield Fault(f"{path}.schedulerName", "is required, and must differ between profiles")
        elif name in seen:
            yield Fault(f"{path}.schedulerName", f'"{name}" is the name of {seen[name]} already')
        else:
            seen[name] = path
        if profile.percentage_of_nodes_to_score is not None:
            yield from _percentage_faults(profile.percentage_of_nodes_to_score, path=f"{path}.percentageOfNodesToScore")


def _leader_election_faults(election: LeaderElectionConfiguration) -> Iterator[Fault]:
    if not election.leader_elect:
        return
    spans = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    yield from (Fault(name, "must be greater than 0") for name, span in spans.items() if span <= Duration())
    if election.lease_duration <= election.renew_deadline:
        yield Fault("leaseDuration", "must be greater than renewDeadline")
    if election.resource_lock != "leases":
        yield Fault("resourceLock", f'"{election.resource_lock}" must be "leases"')


def _extender_faults(extenders: Sequence[Extender]) -> Iterator[Fault]:
    managed: dict[str, str] = {}
    for path, extender in documents.indexed("extenders", extenders):
        yield from _address_faults(extender, path=path)
        if extender.prioritize_verb and extender.weight <= 0:
            yield Fault(f"{path}.weight", f"{extender.weight} must be greater than 0, since prioritizeVerb is set")
        for place, resource in documents.indexed(f"{path}.managedResources", extender.managed_resources):
            yield from (Fault(f"{place}.name", text) for text in _extended_resource_faults(resource.name))
            if resource.name in managed:
                yield Fault(f"{place}.name", f'"{resource.name}" is managed by {managed[resource.name]} already')
            managed.setdefault(resource.name, path)
    if sum(1 for extender in extenders if extender.bind_verb) > 1:
        yield Fault("extenders", "only one extender may have a bindVerb")


def _address_faults(extender: Extender, *, path: str) -> Iterator[Fault]:
    """Check that the extender has exactly one address and at least one verb."""
    if not extender.command:
        if not extender.url_prefix:
            yield Fault(f"{path}.urlPrefix", "is required")
        elif urlsplit(extender.url_prefix).scheme not in {"http", "https"}:
            yield Fault(f"{path}.urlPrefix", f'"{extender.url_prefix}" must begin with http:// or https://')
        return
    over_http = {
        "urlPrefix": extender.url_prefix,
        "enableHTTPS": extender.enable_https,
        "tlsConfig": extender.tls_config is not None,
    }
    yield from (
        Fault(f"{path}.{name}", "has no meaning beside command; leave one of them out")
        for name, given in over_http.items()
        if given
    )
    if not extender.command[0]:
        yield Fault(f"{path}.command[0]", "must name a program")


def _extended_resource_faults(name: str) -> Iterator[str]:
    """Check the name of a resource outside Kubernetes' own; a quota must be able to name it with "requests."."""
    wrong = names.check_label_key(name)
    yield from wrong
    native = "/" not in name or "kubernetes.io/" in name
    if not wrong and (native or name.startswith("requests.") or names.check_label_key(f"requests.{name}")):
        yield f'"{name}" is not an extended resource; those have a domain of their own, as in example.com/gpu'
