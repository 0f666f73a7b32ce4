"""The options of a task, and the pod spec that they define. Pure.

The same options serve `@rota.task` and `fn.options`. Errors are raised where an option is written.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypeAlias, TypedDict

from rota.api import names, quantities
from rota.api.batch import kinds
from rota.kit.errors import UserError

CONTAINER: Final = "main"
_GPU: Final = "nvidia.com/gpu"
_ENVIRONMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*|/[^\0\n]*")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Prefixes of reserved environment variables.
_OURS: Final = (
    "ROTA_TASK",
    "ROTA_VALUE",
    "ROTA_PROOF",
    "ROTA_SCOPE",
    "ROTA_ITEM",
    "ROTA_OUTPUTS",
    "ROTA_BOOTSTRAP",
    "ROTA_PYTHON",
)

#: Finds the requested Python: a path, a virtual environment by path or name, or the worker's own, which contains the
#: task runner; to any other Python the task runner is sent along.
_LAUNCH: Final = """\
case "$1" in
"") at="${ROTA_PYTHON:-$(command -v python3)}" ;;
/*) at="$1" ;;
*) at="${ROTA_ENVIRONMENTS:-/opt/rota/environments}/$1" ;;
esac
[ -d "$at" ] && at="$at/bin/python"
if [ ! -x "$at" ]; then
  echo "there is no Python at $at" | tee "$ROTA_OUTPUTS" >&2
  exit 78
fi
start="import os,zlib,base64 as b;exec(zlib.decompress(b.b64decode(os.environ.pop('ROTA_BOOTSTRAP'))))"
[ -n "$ROTA_BOOTSTRAP" ] || start="from rota.python import task_runner as bootstrap;raise SystemExit(bootstrap.main())"
exec "$at" -c "$start"\
"""


#: Options of a call that its worker need not know.
_OF_A_CALL: Final = frozenset(
    {"retries", "retry_delay", "timeout", "name", "keep", "durable", "idempotent", "gang", "shape"}
)


class OptionError(UserError, ValueError):
    """An option of a task is invalid."""


@dataclass(frozen=True, slots=True)
class SecretValue:
    """The value of an environment variable from a Secret of the cluster."""

    name: str
    key: str


Variable: TypeAlias = str | SecretValue


def from_secret(name: str, key: str) -> SecretValue:
    """For `env`: the value of a Secret's key. It appears neither in the task nor in logs."""
    return SecretValue(name, key)


class TaskOptions(TypedDict, total=False):
    """The options of a task, all of them optional."""

    #: Cores: 2, 0.5 or "500m".
    cpu: float | str
    #: "1Gi", "512Mi"; a task that uses more is killed.
    memory: str
    #: The number of GPUs.
    gpu: int
    #: Environment variables, as strings or by `from_secret`.
    env: Mapping[str, Variable]
    #: Retries after an exception or a crash. A task that is lost to a disruption is always retried.
    retries: int
    #: Seconds before the first retry; each further one waits twice as long, at most ten minutes.
    retry_delay: float
    #: Seconds that an attempt may take, from its start.
    timeout: float
    #: The name of a PriorityClass.
    priority: str
    #: The queue that lets the task in, as `rota queue list` shows them.
    queue: str
    #: The number of processes that run the function, all at once or none; the result is that of process 0.
    gang: int
    #: Labels that its node must have.
    node_selector: Mapping[str, str]
    #: Labels of the task and its pods.
    labels: Mapping[str, str]
    #: The task's name; the function's name by default.
    name: str
    #: The path of a Python or of a virtual environment on the worker, or the name of one; the worker's own by default.
    python: str
    #: A container image to run in, with its Python.
    image: str
    #: The working directory of the function.
    workdir: str
    #: Seconds for which the result is kept after the task's end; by default an hour, or a minute once it was read.
    keep: float
    #: Whether each call is a Job of its own, which outlives this program; by default calls run in leased workers.
    durable: bool
    #: Whether a call may run twice: it is repeated if its worker is lost.
    idempotent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a task, validated."""

    cpu: float | str | None = None
    memory: str | None = None
    gpu: int = 0
    env: Mapping[str, Variable] = field(default_factory=dict)
    retries: int = 0
    retry_delay: float = 1.0
    timeout: float | None = None
    priority: str = ""
    queue: str = ""
    gang: int = 0
    node_selector: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    python: str = ""
    image: str = ""
    workdir: str = ""
    keep: float | None = None
    durable: bool = False
    idempotent: bool = False
    #: The digest of what a worker for its calls needs; calls of one shape share workers.
    shape: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for option, amount in (("cpu", self.cpu), ("memory", self.memory)):
            _check_amount(option, amount)
        for option, number, least in (("gpu", self.gpu, 0), ("retries", self.retries, 0), ("gang", self.gang, 0)):
            if type(number) is not int or number < least:
                raise OptionError(f"{option}={number!r} is no number of {option}", "write 0, 1, 2, ...")
        if self.gang and self.retries:
            raise OptionError("a gang is not retried: one process cannot join the others again", "leave out retries")
        for option, seconds in (("timeout", self.timeout), ("keep", self.keep), ("retry_delay", self.retry_delay)):
            if seconds is not None and not seconds > 0:
                raise OptionError(f"{option}={seconds!r} is no time", "write seconds, more than 0")
        for variable, value in self.env.items():
            if not _VARIABLE.fullmatch(variable) or variable.startswith(_OURS):
                raise OptionError(f"env: {variable!r} is no name for a variable of a task")
            if not isinstance(value, str | SecretValue):
                raise OptionError(
                    f"env: {variable}={value!r} is no text", "write a text, or rota.from_secret(name, key)"
                )
        if self.name and (why := names.check_dns1123_label(self.name)):
            raise OptionError(f"name={self.name!r}: {why[0]}")
        if self.python and not _ENVIRONMENT.fullmatch(self.python):
            raise OptionError(
                f"python={self.python!r} is neither a path nor the name of an environment", "write /srv/envs/ml or ml"
            )
        object.__setattr__(self, "shape", self._digest())

    def changed(self, **overrides: Any) -> "Options":
        """A copy with some options changed; `OptionError` for an unknown option."""
        known = [one.name for one in fields(self) if one.init]
        for option in overrides:
            if option not in known:
                raise OptionError(f"a task has no option {option}", f"there are {', '.join(known)}")
        return replace(self, **overrides)

    @property
    def elsewhere(self) -> bool:
        """Whether it runs in another Python than the worker's own, to which the task runner is sent along."""
        return bool(self.python or self.image)

    def _digest(self) -> str:
        chosen = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _OF_A_CALL}
        said = json.dumps(chosen, sort_keys=True, default=_plain)
        return hashlib.sha256(said.encode()).hexdigest()[:16]

    @property
    def pod_labels(self) -> dict[str, str]:
        """The labels of the pod and of its Job."""
        return dict(self.labels)

    @property
    def pod_annotations(self) -> dict[str, str]:
        """The annotations by which a batch scheduler finds the queue and the size of the pod's group."""
        found = {kinds.QUEUE_NAME: self.queue} if self.queue else {}
        return {**found, kinds.MIN_MEMBER: str(self.gang)} if self.gang else found

    def pod_spec(self, variables: list[dict[str, Any]]) -> dict[str, Any]:
        """The pod spec that runs the task runner with these variables."""
        container: dict[str, Any] = {
            "name": CONTAINER,
            "image": self.image or "process",
            "command": ["/bin/sh", "-c", _LAUNCH.replace("$(", "$$("), "rota", self.python],
            "env": [*(_variable(name, value) for name, value in self.env.items()), *variables],
        }
        if resources := self._resources():
            container["resources"] = resources
        if self.workdir:
            container["workingDir"] = self.workdir
        spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
        if self.queue or self.gang:
            spec["schedulerName"] = kinds.SCHEDULER
        if self.image:
            spec["runtimeClassName"] = "container"
        if self.priority:
            spec["priorityClassName"] = self.priority
        if self.node_selector:
            spec["nodeSelector"] = dict(self.node_selector)
        return spec

    def _resources(self) -> dict[str, Any]:
        asked = {"cpu": self.cpu, "memory": self.memory, _GPU: self.gpu or None}
        requests = {name: str(amount) for name, amount in asked.items() if amount is not None}
        # Memory and devices are not shared, so they have limits; unused CPU may be used by others.
        limits = {name: amount for name, amount in requests.items() if name != "cpu"}
        found = {"requests": requests, "limits": limits}
        return {name: amounts for name, amounts in found.items() if amounts}


def _plain(value: object) -> object:
    """A mapping or a reference to a Secret, for the digest."""
    if isinstance(value, SecretValue):
        return [value.name, value.key]
    return dict(value) if isinstance(value, Mapping) else str(value)


def _variable(name: str, value: Variable) -> dict[str, Any]:
    if isinstance(value, SecretValue):
        return {"name": name, "valueFrom": {"secretKeyRef": {"name": value.name, "key": value.key}}}
    # A dollar sign belongs to the value; it is not a reference to another variable.
    return {"name": name, "value": value.replace("$", "$$")}


def _check_amount(option: str, amount: float | str | None) -> None:
    if amount is None:
        return
    try:
        sound = not isinstance(amount, bool) and quantities.parse(str(amount)).nanos > 0
    except quantities.QuantityError:
        sound = False
    if not sound:
        raise OptionError(f"{option}={amount!r} is no amount", "write 2, 0.5, '500m' or '4Gi'")
