"""The extension points of a scheduling attempt, by the names that configuration files use.

The order of the members is the order in which an attempt passes them. `placementFeasible` has no section of its own in
a profile (kube-scheduler has none either): plugins come to it through multiPoint only.
"""

from enum import StrEnum


class ExtensionPoint(StrEnum):
    """A place in the scheduling of a pod, or of a group of pods, where plugins are called."""

    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_FEASIBLE = "placementFeasible"
    PLACEMENT_SCORE = "placementScore"
    POD_GROUP_POST_FILTER = "podGroupPostFilter"
