"""The plugins by name, and those of a Job in the order in which they run."""

from collections.abc import Mapping
from typing import Final

from rota.api.batch import plugin_arguments
from rota.api.meta import Object
from rota.controllers.batch.plugins.env import Env
from rota.controllers.batch.plugins.hcclrank import HcclRank
from rota.controllers.batch.plugins.mpi import Mpi
from rota.controllers.batch.plugins.plugin import Plugin
from rota.controllers.batch.plugins.pytorch import Pytorch
from rota.controllers.batch.plugins.ray import Ray
from rota.controllers.batch.plugins.ssh import Ssh
from rota.controllers.batch.plugins.svc import Svc
from rota.controllers.batch.plugins.tensorflow import Tensorflow

#: hcclrank reads what pytorch sets, so it is last.
PLUGINS: Final[Mapping[str, type[Plugin]]] = {
    "env": Env,
    "svc": Svc,
    "ssh": Ssh,
    "pytorch": Pytorch,
    "tensorflow": Tensorflow,
    "mpi": Mpi,
    "ray": Ray,
    "hcclrank": HcclRank,
}


def plugins_of(job: Object) -> list[Plugin]:
    """The plugins that a Job names."""
    named = job["spec"].get("plugins") or {}
    return [make(plugin_arguments.parse(name, named[name] or ())) for name, make in PLUGINS.items() if name in named]


def controlled(job: Object) -> dict[str, str]:
    """The plugins of a Job as its status lists them."""
    return {f"plugin-{name}": name for name in PLUGINS if name in (job["spec"].get("plugins") or {})}
