"""KubeSchedulerConfiguration of `kubescheduler.config.k8s.io/v1`, field by field.

This module has the structs and kube-scheduler's defaults only. `validation` checks the values, `profiles` resolves the
profiles. Where Go cannot distinguish zero from absent, a zero gets the default here too.
"""

from typing import Annotated, Any

import msgspec

from rota.scheduler.config.durations import Duration

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME = "default-scheduler"

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class WireStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A piece of configuration: immutable, camelCase in files, strict about unknown fields."""

    def _default_zeros(self, *names: str) -> None:
        """Set the default where one of these fields (or any) holds its type's zero value; false stays false."""
        for field in msgspec.structs.fields(self):
            value = getattr(self, field.name)
            if (not names or field.name in names) and not isinstance(value, bool) and not value:
                msgspec.structs.force_setattr(self, field.name, field.default)


class PluginRef(WireStruct, frozen=True):
    """A plugin by name, with the weight of its scores."""

    name: str
    weight: Int32 = 0


class PluginSet(WireStruct, frozen=True):
    """What a profile changes at one extension point."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()


class Plugins(WireStruct, frozen=True):
    """One section per extension point, and multiPoint for all of them."""

    multi_point: PluginSet = PluginSet()
    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    pod_group_post_filter: PluginSet = PluginSet()

    def sections(self) -> dict[str, PluginSet]:
        """Give every section by its name in the file."""
        return {field.encode_name: getattr(self, field.name) for field in msgspec.structs.fields(self)}


class PluginConfig(WireStruct, frozen=True):
    """The arguments of one plugin; their shape is the plugin's own."""

    name: str
    args: dict[str, Any] = {}


class KubeSchedulerProfile(WireStruct, frozen=True):
    """How pods of one schedulerName are scheduled."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class LeaderElectionConfiguration(WireStruct, frozen=True):
    """Leader election among several scheduler processes."""

    leader_elect: bool = True
    lease_duration: Duration = Duration(seconds=15)
    renew_deadline: Duration = Duration(seconds=10)
    retry_period: Duration = Duration(seconds=2)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"

    def __post_init__(self) -> None:
        self._default_zeros()


class ClientConnectionConfiguration(WireStruct, frozen=True):
    """The connection to the API server."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: Int32 = 100

    def __post_init__(self) -> None:
        self._default_zeros()


class ExtenderTLSConfig(WireStruct, frozen=True):
    """Certificates for an extender; the data fields are base64 in the file and bytes here."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ExtenderManagedResource(WireStruct, frozen=True):
    """An extended resource that an extender looks after."""

    name: str
    ignored_by_scheduler: bool = False


class Extender(WireStruct, frozen=True):
    """An extender, called over HTTP or (`command`) as a child process; an empty verb is not called."""

    url_prefix: str = ""
    #: Not in kube-scheduler: a program and its arguments, called through its standard input and output.
    command: tuple[str, ...] = ()
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = Duration(seconds=5)
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False

    def __post_init__(self) -> None:
        self._default_zeros("http_timeout")


class KubeSchedulerConfiguration(WireStruct, frozen=True):
    """The whole file."""

    api_version: str = ""
    kind: str = ""
    parallelism: Int32 = 16
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False

    def __post_init__(self) -> None:
        if self.enable_contention_profiling is None:
            msgspec.structs.force_setattr(self, "enable_contention_profiling", self.enable_profiling)
        if not self.profiles:
            msgspec.structs.force_setattr(self, "profiles", (KubeSchedulerProfile(),))
        if len(self.profiles) == 1 and self.profiles[0].scheduler_name is None:
            named = msgspec.structs.replace(self.profiles[0], scheduler_name=DEFAULT_SCHEDULER_NAME)
            msgspec.structs.force_setattr(self, "profiles", (named,))
