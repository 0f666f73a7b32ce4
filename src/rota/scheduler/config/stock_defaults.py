"""kube-scheduler's default plugins, in order, and the other plugin names that it knows.

The order and the weights are those of `pkg/scheduler/apis/config/v1/default_plugins.go` (1.36 to 1.38). Plugins for
features that Rota does not have (device claims, declared node features, upstream's pod groups) are not in the default
set. Their names stay known, so that a file that disables or configures them is accepted.
"""

from rota.scheduler.config.wire import PluginRef

DEFAULT_PLUGINS: tuple[PluginRef, ...] = (
    PluginRef(name="SchedulingGates"),
    PluginRef(name="PrioritySort"),
    PluginRef(name="NodeUnschedulable"),
    PluginRef(name="NodeName"),
    PluginRef(name="TaintToleration", weight=3),
    PluginRef(name="NodeAffinity", weight=2),
    PluginRef(name="NodePorts"),
    PluginRef(name="NodeResourcesFit", weight=1),
    PluginRef(name="VolumeRestrictions"),
    PluginRef(name="NodeVolumeLimits"),
    PluginRef(name="VolumeBinding"),
    PluginRef(name="VolumeZone"),
    PluginRef(name="PodTopologySpread", weight=2),
    PluginRef(name="InterPodAffinity", weight=2),
    PluginRef(name="DefaultPreemption"),
    PluginRef(name="NodeResourcesBalancedAllocation", weight=1),
    PluginRef(name="ImageLocality", weight=1),
    PluginRef(name="DefaultBinder"),
)

#: Plugins of kube-scheduler that Rota does not have.
ABSENT_PLUGINS = frozenset(
    {
        "DeferredPodScheduling",
        "DynamicResources",
        "GangScheduling",
        "NodeDeclaredFeatures",
        "PodGroupPodsCount",
        "TopologyPlacementGenerator",
    }
)

#: Plugins that kube-scheduler had in the past, with their replacement.
REMOVED_PLUGINS = {
    "AzureDiskLimits": "NodeVolumeLimits",
    "CinderLimits": "NodeVolumeLimits",
    "EBSLimits": "NodeVolumeLimits",
    "GCEPDLimits": "NodeVolumeLimits",
}
