"""The built-in plugins by name."""

from rota.scheduler.framework.registry import Registry
from rota.scheduler.plugins.balance_objective import BalanceObjective
from rota.scheduler.plugins.best_fit import BestFit
from rota.scheduler.plugins.capacity_gradient import CapacityGradient
from rota.scheduler.plugins.carbon_objective import CarbonObjective
from rota.scheduler.plugins.contention_objective import ContentionObjective
from rota.scheduler.plugins.default_binder import DefaultBinder
from rota.scheduler.plugins.default_preemption import DefaultPreemption
from rota.scheduler.plugins.dot_product import DotProduct
from rota.scheduler.plugins.fragmentation_gradient import FragmentationGradient
from rota.scheduler.plugins.fragmentation_objective import FragmentationObjective
from rota.scheduler.plugins.gpu_clustering import GpuClustering
from rota.scheduler.plugins.gpu_packing import GpuPacking
from rota.scheduler.plugins.gpu_share import GpuShare
from rota.scheduler.plugins.image_locality import ImageLocality
from rota.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from rota.scheduler.plugins.load_aware import LoadAware
from rota.scheduler.plugins.load_variation_risk_balancing import LoadVariationRiskBalancing
from rota.scheduler.plugins.node_affinity import NodeAffinity
from rota.scheduler.plugins.node_name import NodeName
from rota.scheduler.plugins.node_ports import NodePorts
from rota.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from rota.scheduler.plugins.node_resources_fit import NodeResourcesFit
from rota.scheduler.plugins.node_unschedulable import NodeUnschedulable
from rota.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from rota.scheduler.plugins.objective_combiner import ObjectiveCombiner
from rota.scheduler.plugins.pod_topology_spread import PodTopologySpread
from rota.scheduler.plugins.power_aware import PowerAware
from rota.scheduler.plugins.power_objective import PowerObjective
from rota.scheduler.plugins.price_objective import PriceObjective
from rota.scheduler.plugins.priority_sort import PrioritySort
from rota.scheduler.plugins.random_placement import RandomPlacement
from rota.scheduler.plugins.scheduling_gates import SchedulingGates
from rota.scheduler.plugins.taint_toleration import TaintToleration
from rota.scheduler.plugins.target_load_packing import TargetLoadPacking
from rota.scheduler.plugins.utilization_objective import UtilizationObjective
from rota.scheduler.plugins.volume_binding import VolumeBinding
from rota.scheduler.plugins.volume_restrictions import VolumeRestrictions
from rota.scheduler.plugins.volume_zone import VolumeZone

CLASSES = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    GpuShare,
    RandomPlacement,
    DotProduct,
    GpuClustering,
    GpuPacking,
    BestFit,
    FragmentationGradient,
    CapacityGradient,
    PowerAware,
    PowerObjective,
    CarbonObjective,
    UtilizationObjective,
    BalanceObjective,
    FragmentationObjective,
    PriceObjective,
    ContentionObjective,
    ObjectiveCombiner,
    LoadAware,
    TargetLoadPacking,
    LoadVariationRiskBalancing,
)


def registry() -> Registry:
    """A registry of all built-in plugins, to which others may be added."""
    return Registry(CLASSES)
