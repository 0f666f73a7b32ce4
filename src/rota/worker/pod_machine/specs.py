"""The parts of a pod's spec that running it depends on. Read once, when the pod is first seen: they are immutable."""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from rota.api import meta
from rota.worker.pod_machine.machine_events import Object, ProbeKind

Kind: TypeAlias = Literal["init", "sidecar", "main"]
RestartPolicy: TypeAlias = Literal["Always", "OnFailure", "Never"]

_PROBES: Final[Mapping[ProbeKind, str]] = {
    "startup": "startupProbe",
    "liveness": "livenessProbe",
    "readiness": "readinessProbe",
}
_DEFAULT_GRACE_S: Final = 30


class ProbeSpec(msgspec.Struct, frozen=True):
    """The thresholds of a probe."""

    successes: int
    failures: int
    #: The grace period when the probe fails; None: the pod's.
    grace_s: int | None


class ContainerSpec(msgspec.Struct, frozen=True):
    """One container."""

    name: str
    kind: Kind
    image: str
    probes: Mapping[ProbeKind, ProbeSpec]
    has_post_start: bool
    has_pre_stop: bool


class PodSpec(msgspec.Struct, frozen=True):
    """What is to run, in which order, and when the pod has ended."""

    uid: str
    namespace: str
    name: str
    restart_policy: RestartPolicy
    grace_s: int
    deadline_s: int | None
    #: Init containers and sidecars in order.
    first: tuple[ContainerSpec, ...]
    main: tuple[ContainerSpec, ...]
    readiness_gates: tuple[str, ...]

    @property
    def all(self) -> tuple[ContainerSpec, ...]:
        """Every container."""
        return self.first + self.main


def read(pod: Object) -> PodSpec:
    """The spec of a pod that an API server has accepted."""
    spec = pod.get("spec") or {}
    deadline = spec.get("activeDeadlineSeconds")
    return PodSpec(
        uid=meta.uid(pod),
        namespace=meta.namespace(pod),
        name=meta.name(pod),
        restart_policy=spec.get("restartPolicy") or "Always",
        grace_s=_number(spec.get("terminationGracePeriodSeconds"), _DEFAULT_GRACE_S),
        deadline_s=deadline if isinstance(deadline, int) else None,
        first=tuple(
            _container(one, "sidecar" if one.get("restartPolicy") == "Always" else "init")
            for one in spec.get("initContainers") or ()
        ),
        main=tuple(_container(one, "main") for one in spec.get("containers") or ()),
        readiness_gates=tuple(one.get("conditionType", "") for one in spec.get("readinessGates") or ()),
    )


def _container(found: Mapping[str, Any], kind: Kind) -> ContainerSpec:
    hooks = found.get("lifecycle") or {}
    # Init containers have no probes, sidecars do.
    probes = {
        name: _probe(found[key]) for name, key in _PROBES.items() if found.get(key) is not None and kind != "init"
    }
    return ContainerSpec(
        name=found.get("name", ""),
        kind=kind,
        image=found.get("image", ""),
        probes=probes,
        has_post_start=bool(hooks.get("postStart")) and kind != "init",
        has_pre_stop=bool(hooks.get("preStop")) and kind != "init",
    )


def _probe(found: Mapping[str, Any]) -> ProbeSpec:
    return ProbeSpec(
        successes=_number(found.get("successThreshold"), 1) or 1,
        failures=_number(found.get("failureThreshold"), 3) or 3,
        grace_s=found.get("terminationGracePeriodSeconds"),
    )


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) else default
