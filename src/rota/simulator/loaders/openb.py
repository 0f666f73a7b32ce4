"""OpenB, Alibaba's trace of shared GPUs: `openb_node_list_gpu_node.csv` and `openb_pod_list_NAME.csv`, also in gzip.

A node has its GPUs, and their model as a label; a pod asks for whole GPUs or for thousandths of one. The variants with
five columns have neither times nor GPU models; their pods arrive in the order of the file.
"""

from pathlib import Path
from typing import Any, Final

from rota.api import gpu_devices as devices
from rota.kit.errors import UserError
from rota.simulator.loaders.csv_rows import CsvFile, Row
from rota.simulator.traces import FOREVER, BadTrace, Trace, TraceBuilder

NODES: Final = "openb_node_list_gpu_node.csv"
_NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
#: The most pods of a node in the authors' simulator.
_MOST_PODS: Final = 1001
_WHOLE: Final = 1000


def names(folder: Path) -> list[str]:
    """The names of the pod lists in a folder."""
    found = (path.name.removesuffix(".gz") for path in folder.glob("openb_pod_list_*.csv*"))
    return sorted({name.removeprefix("openb_pod_list_").removesuffix(".csv") for name in found})


def load(folder: Path, name: str = "default", *, lenient: bool = False) -> Trace:
    """Read the nodes with GPUs and one list of pods."""
    into = TraceBuilder(name)
    nodes = CsvFile(_file(folder, NODES), required=_NODE_COLUMNS, skipped=into.skipped, lenient=lenient)
    for row in nodes.rows():
        try:
            _node(row, into)
        except BadTrace as fault:
            nodes.refuse(fault)
    # By name, so that the first row of several equal ones is the one with the smallest name.
    ordered = dict(sorted(into.nodes.items()))
    into.nodes.clear()
    into.nodes.update(ordered)
    pods = CsvFile(_pod_list(folder, name), required=_POD_COLUMNS, skipped=into.skipped, lenient=lenient)
    for position, row in enumerate(pods.rows()):
        try:
            _pod(row, position, into)
        except BadTrace as fault:
            pods.refuse(fault)
    return into.build()


def _pod_list(folder: Path, name: str) -> Path:
    known = names(folder)
    if name not in known:
        told = ", ".join(known) or "none"
        raise UserError(f'{folder} has no pod list "{name}"', f"the lists there are {told}")
    return _file(folder, f"openb_pod_list_{name}.csv")


def _file(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    raise UserError(f"{folder} has no {name}", "give the folder with the CSV files of OpenB")


def _node(row: Row, into: TraceBuilder) -> None:
    name = row.text("sn")
    if name in into.nodes:
        raise row.fault("sn", f'there is another node "{name}"')
    allocatable = {
        "cpu": f"{row.whole('cpu_milli')}m",
        "memory": f"{row.whole('memory_mib')}Mi",
        "pods": str(_MOST_PODS),
        devices.WHOLE: str(row.whole("gpu")),
        devices.SHARE: str(row.whole("gpu") * devices.MILLI),
    }
    labels = {"kubernetes.io/hostname": name, devices.MODEL_LABEL: row.text("model")}
    into.nodes[name] = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}


def _pod(row: Row, position: int, into: TraceBuilder) -> None:
    name = row.text("name")
    cpu, memory = row.whole("cpu_milli"), row.whole("memory_mib")
    count, milli = row.whole("num_gpu"), row.whole("gpu_milli")
    if milli > _WHOLE:
        raise row.fault("gpu_milli", f"{milli} is more than one GPU has")
    if count > 1 and milli not in {0, _WHOLE}:
        raise row.fault("gpu_milli", f"{milli} is a part of a GPU, and the pod asks for {count} of them")
    models = row.text("gpu_spec", "")
    begins = row.number("creation_time", float(position))
    ends = row.number("deletion_time", FOREVER)
    scheduled = row.number("scheduled_time", begins)
    if ends < scheduled:
        raise row.fault("deletion_time", f"{ends:g} is before the start, at {scheduled:g}")
    if not into.claim_name(name):
        raise row.fault("name", f'there is another pod "{name}"')
    key = cpu, memory, count, milli, models
    number = into.known_template(key)
    if number is None:
        number = into.template(key, _manifest(cpu, memory, count, milli, models))
    into.arrive(name, begins, number, duration=ends - scheduled)


def _manifest(cpu: int, memory: int, count: int, milli: int, models: str) -> dict[str, Any]:
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    if count and milli:
        requests |= {devices.WHOLE: str(count)} if milli == _WHOLE else {devices.SHARE: str(milli)}
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    if models and count:
        term = {"matchExpressions": [{"key": devices.MODEL_LABEL, "operator": "In", "values": models.split("|")}]}
        required = {"nodeSelectorTerms": [term]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return {"metadata": {"name": "pod"}, "spec": spec}
