"""Kinds of the group `metrics.k8s.io`, in the form of the generated models."""

# ruff: noqa: N815, UP006, UP035, UP045 - fields are named as on the wire, annotations written as the generated ones are
from typing import Dict, List, Optional

from rota.api.models import meta_v1  # type: ignore[attr-defined]  # found through the package's __path__
from rota.api.models._schema import DictMixin

__all__ = ["ContainerMetrics", "NodeMetrics", "PodMetrics", "meta_v1"]


class ContainerMetrics(DictMixin):
    r"""What a container uses.

    **parameters**

    * **name** ``str`` - The container.
    * **usage** ``Dict[str, str]`` - What it uses: cpu, over the window, and memory, without what could be dropped.
    """

    name: "str"
    usage: "Dict[str, str]"


class NodeMetrics(DictMixin):
    r"""What a node uses.

    **parameters**

    * **timestamp** ``str`` - When it was measured.
    * **window** ``str`` - The time up to then over which cpu is averaged.
    * **usage** ``Dict[str, str]`` - What it uses: cpu, over the window; memory, without what could be dropped;
      ephemeral-storage; bytes that came and went over the network since it came up.
    * **apiVersion** ``Optional[str]`` - The version of this object: metrics.k8s.io/v1beta1.
    * **kind** ``Optional[str]`` - The kind of this object: NodeMetrics.
    * **metadata** ``Optional[meta_v1.ObjectMeta]`` - The node's name and labels.
    """

    timestamp: "str"
    window: "str"
    usage: "Dict[str, str]"
    apiVersion: "Optional[str]" = None
    kind: "Optional[str]" = None
    metadata: "Optional[meta_v1.ObjectMeta]" = None


class PodMetrics(DictMixin):
    r"""What the containers of a pod use.

    **parameters**

    * **timestamp** ``str`` - When it was measured.
    * **window** ``str`` - The time up to then over which cpu is averaged.
    * **containers** ``List[ContainerMetrics]`` - What each running container uses.
    * **apiVersion** ``Optional[str]`` - The version of this object: metrics.k8s.io/v1beta1.
    * **kind** ``Optional[str]`` - The kind of this object: PodMetrics.
    * **metadata** ``Optional[meta_v1.ObjectMeta]`` - The pod's name, namespace and labels.
    * **usage** ``Optional[Dict[str, str]]`` - What is only known of the pod as a whole: ephemeral-storage, and bytes
      that came and went over the network, if it has one of its own.
    """

    timestamp: "str"
    window: "str"
    containers: "List[ContainerMetrics]"
    apiVersion: "Optional[str]" = None
    kind: "Optional[str]" = None
    metadata: "Optional[meta_v1.ObjectMeta]" = None
    usage: "Optional[Dict[str, str]]" = None
