"""Steps of a plan: what is done to which member, and what may be done at the same time. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Action(StrEnum):
    """What a step does. Every action may be repeated: what is done already is left as it is."""

    PREPARE = "prepare"
    INSTALL = "install"
    COPY_KEYS = "copy-keys"
    START = "start"
    JOIN = "join"
    DRAIN = "drain"
    DELETE_NODE = "delete-node"
    REMOVE = "remove"
    FORGET = "forget"
    PRUNE = "prune"
    RAISE_LEVEL = "raise-level"


_WORDS: Final = {
    Action.PREPARE: "make the folder of {member}",
    Action.INSTALL: "install {detail} on {member}",
    Action.COPY_KEYS: "copy the encryption keys from {detail} to {member}",
    Action.START: "start {member} and wait until it is ready",
    Action.JOIN: "join {member} with a token and wait until its node is ready",
    Action.DRAIN: "evict the pods of {member}",
    Action.DELETE_NODE: "delete the node {member}",
    Action.REMOVE: "stop {member} and remove its files",
    Action.FORGET: "forget {member}, which is not removed from its machine",
    Action.PRUNE: "remove {detail} from {member}",
    Action.RAISE_LEVEL: "raise the level of the cluster to {detail}; the release before cannot come back after that",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step. Steps of a stage run at the same time; a stage begins when the one before is done."""

    stage: int
    action: Action
    member: str
    #: The release to install, the releases to remove, the member to copy the keys from, or the new level.
    detail: str = ""
    #: Restart the process although it runs: it has another release or configuration, or its node is not ready.
    restart: bool = False

    @property
    def text(self) -> str:
        """The step in words."""
        words = _WORDS[self.action].format(member=self.member, detail=self.detail)
        return f"re{words}" if self.restart and self.action is Action.START else words

    @property
    def key(self) -> str:
        """Its name in the journal."""
        return f"{self.action}/{self.member}"

    def as_json(self) -> dict[str, Any]:
        """For `--plan --json`."""
        return {"stage": self.stage, "action": str(self.action), "member": self.member, "text": self.text}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Steps in order, and what is not in them."""

    steps: tuple[Step, ...]
    #: What keeps the cluster from becoming as its file wants it although all steps are done.
    left: tuple[str, ...] = ()

    def stages(self) -> list[Sequence[Step]]:
        """The steps of each stage."""
        numbers = sorted({one.stage for one in self.steps})
        return [[one for one in self.steps if one.stage == number] for number in numbers]
