"""The names and labels of what belongs to a run. They follow from its place, so that it is made once, whoever makes it.

The step run of a step is `<run>-<step>`, with its item `<run>-<step>-<index>`; a try of it has one more number. Two
places never have one name: a step whose name could be taken for a part of the run's, or for an index, has a hash behind
it, and so has whatever would be too long. Where a run's shared folder is follows from its uid.
"""

import hashlib
import re
from typing import Final

RUN_LABEL: Final = "rota.dev/pipeline-run"
STEP_LABEL: Final = "rota.dev/step"
#: Which item of a step, by its number: a label of step runs, and an annotation of pods, so that all pods of a step have
#: the same labels and need not be told apart where they are placed. What has no items does not have it.
ITEM: Final = "rota.dev/item"
PIPELINE_LABEL: Final = "rota.dev/pipeline"
#: On a pod that has its run's shared folder: the run's name, whole. Workers ask by it whether the run is still there.
WORKSPACE_ANNOTATION: Final = "rota.dev/workspace-of"
#: A shared folder begins like this on the node that it is on. It stands in the machine's own folder for what lasts, and
#: not in one of ours, which somebody could make before us. Only the worker may enter it; what is shared is one below,
#: which pods have mounted, whoever they run as.
_WORKSPACES: Final = "/var/tmp/rota-workspace-"  # noqa: S108 - see above; the run's uid follows
_SHARED: Final = "shared"
_WORKSPACE: Final = re.compile(rf"{_WORKSPACES}([0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})/{_SHARED}")
#: The longest name here, with room for what controllers put behind it; and the longest value of a label.
LONGEST: Final = 200
LONGEST_LABEL: Final = 63


def step_run(run: str, step: str, index: int | None) -> str:
    """The name of the step run of a step, or of one of its items."""
    place = f"{run}-{step}" if index is None else f"{run}-{step}-{index}"
    if "-" in step or step.isdigit():
        return _cut(place, f"{run}/{step}/{index}", LONGEST)
    return short(place)


def short(name: str, *, most: int = LONGEST) -> str:
    """A name that is no longer than this; one that was cut is told apart by its hash."""
    return name if len(name) <= most else _cut(name, name, most)


def label(name: str) -> str:
    """A name as the value of a label, which has to be shorter than a name."""
    return short(name, most=LONGEST_LABEL)


def _cut(name: str, whole: str, most: int) -> str:
    return f"{name[: most - 11].rstrip('-.')}-{hashlib.sha256(whole.encode()).hexdigest()[:10]}"


def workspace(uid: str) -> str:
    """The folder that the steps of a run share, on the node that it is on."""
    return f"{_WORKSPACES}{uid}/{_SHARED}"


def workspace_of(path: str) -> str:
    """The uid of the run whose shared folder this is; empty if it is none."""
    found = _WORKSPACE.fullmatch(path)
    return found[1] if found else ""
