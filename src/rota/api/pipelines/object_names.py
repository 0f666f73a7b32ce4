"""Names and labels of the objects of a run. They follow from their place in it, so each is created once.

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
#: The type of Secrets with which steps sign their outputs.
SIGNING_TYPE: Final = "rota.dev/signing-key"
#: Annotations of pods that begin like this prove where a value is from; the work is the same with another proof.
PROOF: Final = "rota.dev/proof-"
#: On a pod that has its run's shared folder: the run's name, whole. Workers ask by it whether the run is still there.
WORKSPACE_ANNOTATION: Final = "rota.dev/workspace-of"
#: The path of a shared folder on its node begins like this. Its parent is the machine's folder for temporary files that
#: outlast a restart: another user could create a parent of our own before the worker does. Only the worker may enter
#: it; pods of every user have the folder below it mounted.
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


def signing_secret(owner: str, uid: str) -> str:
    """The name of the Secret with which steps sign their outputs; its owner is a pipeline, or a run that has none.

    It includes a part of the uid: a pipeline that replaces one of the same name has another Secret.
    """
    return f"{short(owner)}-signing-{uid[:8]}"


def workspace(uid: str) -> str:
    """The folder that the steps of a run share, on the node that it is on."""
    return f"{_WORKSPACES}{uid}/{_SHARED}"


def workspace_of(path: str) -> str:
    """The uid of the run whose shared folder this is; empty if it is none."""
    found = _WORKSPACE.fullmatch(path)
    return found[1] if found else ""
