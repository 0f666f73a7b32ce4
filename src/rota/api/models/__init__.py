"""Every Kubernetes kind as a msgspec Struct: `models.core_v1.Pod`, `models.meta_v1.ObjectMeta`, and so on.

The Structs are those of the `lightkube-models` distribution, loaded under this package's name: its `__path__` is
this folder first and the distribution's folder after it. So the generated modules get their base class from our
`_schema` and their quantities from our `resource`, `lightkube` itself (an HTTP client with its dependencies) is
not needed, and where it is installed nothing of it is imported or changed.

A module is loaded when it is first imported. The kinds are listed in `rota.api.scheme`.
"""

import importlib
import importlib.machinery
from pathlib import Path
from types import ModuleType


def _folder_of_models() -> str:
    """Where the distribution's models are; found without importing any of it."""
    spec = importlib.machinery.PathFinder.find_spec("lightkube")
    for place in (spec.submodule_search_locations if spec else None) or ():
        folder = Path(place, "models")
        if folder.is_dir():
            return str(folder)
    raise ImportError(
        "the distribution lightkube-models is not installed; install it with: pip install lightkube-models"
    )


__path__ = [*__path__, _folder_of_models()]


def load(module: str) -> ModuleType:
    """The models of a group and version, by module name: `load("core_v1").Pod`."""
    return importlib.import_module(f"{__name__}.{module}")
