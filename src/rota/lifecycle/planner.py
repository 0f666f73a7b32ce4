"""Which steps lead from the observed state of the machines to the cluster of the file. Pure.

The plan depends on the observation alone, and every step may be repeated. So a runner that was cut off is resumed by
observing and planning again: what it had done is not in the new plan.

| verb | adds members | removes members | changes releases and options | restarts what is broken |
| --- | --- | --- | --- | --- |
| create | yes | | | yes |
| scale | yes | yes | | yes |
| upgrade | | | yes, one member at a time, masters first; then the cluster's level | yes |
| repair | | | | yes |
| delete | | all | | |
"""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Final

from rota.kit import errors, levels
from rota.kit.levels import Levels
from rota.lifecycle import service_units
from rota.lifecycle.cluster_spec import SQLITE, ClusterSpec, Manager, Member, Role
from rota.lifecycle.observed import MemberState, Observed
from rota.lifecycle.steps import Action, Plan, Step

_OLDEST_PYTHON: Final = (3, 11)


class Verb(StrEnum):
    """What the user wants to happen to the cluster."""

    CREATE = "create"
    SCALE = "scale"
    UPGRADE = "upgrade"
    REPAIR = "repair"
    DELETE = "delete"


def plan(
    verb: Verb,
    spec: ClusterSpec,
    observed: Observed,
    *,
    release: str = "",
    speaks: Levels | None = None,
    hold_level: bool = False,
    forget: Collection[str] = (),
) -> Plan:
    """The steps of a verb; UserError if the file asks for something that the verb must not or cannot do.

    `release` is the release of the file's bundle and `speaks` its levels; with an installed program they are empty and
    None. `hold_level` keeps the level of the cluster, so that an upgrade can be taken back. `forget` are unreachable
    members that are to be removed from the journal.
    """
    planning = _Planning(verb, spec, observed, release, speaks)
    unknown = set(forget) - observed.inventory.keys()
    if unknown:
        raise errors.UserError(f"there is no member {', '.join(sorted(unknown))}", "see 'rota cluster status'")
    if verb is Verb.DELETE:
        planning.delete(forget)
    else:
        planning.refuse()
        planning.converge(forget)
        if verb is Verb.UPGRADE:
            planning.finish(hold_level=hold_level)
    return Plan(steps=tuple(planning.steps), left=tuple(planning.left))


class _Planning:
    """One plan in the making."""

    def __init__(self, verb: Verb, spec: ClusterSpec, observed: Observed, release: str, speaks: Levels | None) -> None:
        self._verb: Final = verb
        self._spec: Final = spec
        self._observed: Final = observed
        self._release: Final = release
        #: An installed program is the one that the masters run.
        self._speaks: Final = speaks or observed.master_levels
        self._stage = 0
        self.steps: Final[list[Step]] = []
        self.left: Final[list[str]] = []
        #: Members of the journal that the file does not have.
        self._leaving: Final = [one for one in observed.inventory.values() if spec.member(one.name) is None]

    # --- what must not be done --------------------------------------------------------------------------------------

    def refuse(self) -> None:
        """Raise what is wrong with the file for this verb."""
        spec, verb = self._spec, self._verb
        new = [one.name for one in spec.members if one.name not in self._observed.inventory]
        gone = [one.name for one in self._leaving]
        if verb is Verb.CREATE and gone:
            raise _refusal(f"{_listed(gone)} of the cluster is not in the file", "remove it with 'rota cluster scale'")
        if verb in {Verb.UPGRADE, Verb.REPAIR} and (new or gone):
            raise _refusal(
                f"the file has other members than the cluster: {_listed([*new, *gone])}",
                "run 'rota cluster scale' first",
            )
        if verb in {Verb.SCALE, Verb.UPGRADE, Verb.REPAIR} and not self._observed.inventory:
            raise _refusal(f"there is no cluster {spec.name}", "run 'rota cluster create'")
        if spec.store == SQLITE and any(one.role is Role.MASTER for one in self._leaving):
            raise _refusal(
                f"{_listed(gone)} has the store of the cluster",
                "back it up, then create a new cluster and restore the backup there",
            )
        if self._release and self._speaks is not None and self._observed.level is not None:
            fault = levels.master_fault(self._observed.level, self._speaks)
            if fault is not None:
                raise _refusal(f"release {self._release}: {fault.message}", fault.remedy)
        for member in spec.members:
            self._refuse_machine(member, self._observed.state(member.name))

    def _refuse_machine(self, member: Member, state: MemberState) -> None:
        known = self._observed.inventory.get(member.name)
        if known is not None and (known.address, known.role) != (member.address, member.role):
            raise _refusal(
                f"{member.name} is a {known.role} on {known.address}",
                "give the new member a new name, and remove the old one",
            )
        if not state.reachable:
            return
        if state.cluster not in {"", self._spec.name}:
            raise _refusal(
                f"the folder of {member.name} on {member.address} belongs to the cluster {state.cluster}",
                "choose another spec.folder",
            )
        if self._spec.manager is Manager.SYSTEMD and not state.systemd:
            raise _refusal(
                f"{member.name}: no systemd runs on {member.address}", "write 'manager: processes' in the spec"
            )
        if self._release and _version(state.python) < _OLDEST_PYTHON:
            raise _refusal(
                f"{member.name}: {self._spec.python} on {member.address} is {state.python or 'missing'}",
                "install Python 3.11 or newer there, or name another one in spec.python",
            )

    # --- members of the file ----------------------------------------------------------------------------------------

    def converge(self, forget: Collection[str]) -> None:
        """Install and start what is missing, then remove what is too much."""
        reachable = [one for one in self._spec.members if self._observed.state(one.name).reachable]
        for member in self._spec.members:
            state = self._observed.state(member.name)
            if not state.reachable:
                self.left.append(f"{member.name} is left out: {state.fault}")
        self._add(Action.PREPARE, [one for one in reachable if not self._observed.state(one.name).placed])
        self._add(Action.INSTALL, [one for one in reachable if self._needs_release(one)], detail=self._release)
        self._masters([one for one in reachable if one.role is Role.MASTER])
        self._workers([one for one in reachable if one.role is Role.WORKER])
        if self._verb is Verb.SCALE:
            self._remove_leaving(forget)

    def _masters(self, masters: Sequence[Member]) -> None:
        starting = [one for one in masters if self._needs_start(one)]
        source = self._keys_source()
        lacking = [one for one in masters if not self._observed.state(one.name).has_keys]
        if not source and lacking:
            hidden = [
                one.name
                for one in self._observed.inventory.values()
                if one.role is Role.MASTER and not self._observed.state(one.name).reachable
            ]
            if hidden:
                raise _refusal(
                    f"the encryption keys of the cluster are on {_listed(hidden)}, which cannot be reached",
                    "start that machine first, or restore the keys from a copy",
                )
            # The first master makes the keys.
            first = lacking.pop(0)
            source = first.name
            self._start([first])
            starting = [one for one in starting if one is not first]
        self._add(Action.COPY_KEYS, lacking, detail=source)
        running = [one for one in starting if self._observed.state(one.name).running]
        self._start([one for one in starting if one not in running])
        # One after the other, so that the others serve meanwhile.
        for one in running:
            self._start([one])

    def _keys_source(self) -> str:
        # Those of the file, too: a journal that was lost does not name the masters that run.
        for one in {**{one.name: one for one in self._spec.masters}, **self._observed.inventory}.values():
            state = self._observed.state(one.name)
            if one.role is Role.MASTER and state.reachable and state.has_keys and state.cluster == self._spec.name:
                return one.name
        return ""

    def _workers(self, workers: Sequence[Member]) -> None:
        nodes = self._observed.nodes or {}
        joining = [one for one in workers if self._needs_join(one)]
        for one in joining:
            node = nodes.get(one.name)
            if node is not None and node.ready and not self._observed.state(one.name).running:
                raise _refusal(
                    f"another machine runs as the node {one.name}",
                    "give this worker another name, or stop the other one",
                )
        # A token cannot take over the name of an existing node.
        self._add(Action.DELETE_NODE, [one for one in joining if one.name in nodes])
        self._add(Action.JOIN, joining)
        starting = [one for one in workers if one not in joining and self._needs_start(one)]
        running = [one for one in starting if self._observed.state(one.name).running]
        self._start([one for one in starting if one not in running])
        for one in running:
            self._start([one])

    def _needs_release(self, member: Member) -> bool:
        state = self._observed.state(member.name)
        if not self._release or self._release in state.releases:
            return False
        return self._verb is Verb.UPGRADE or not state.running

    def _needs_join(self, member: Member) -> bool:
        state, nodes = self._observed.state(member.name), self._observed.nodes
        return not state.joined or (nodes is not None and member.name not in nodes)

    def _needs_start(self, member: Member) -> bool:
        state = self._observed.state(member.name)
        if not state.running:
            return True
        if self._is_other(member, state):
            if self._verb is Verb.UPGRADE:
                return True
            self.left.append(f"{member.name} runs another release or configuration: 'rota cluster upgrade' changes it")
        if member.role is Role.MASTER:
            return not state.serving
        node = (self._observed.nodes or {}).get(member.name)
        return self._observed.nodes is not None and (node is None or not node.ready)

    def _is_other(self, member: Member, state: MemberState) -> bool:
        wanted = service_units.service(self._spec, member)
        return state.digest != wanted.digest or state.started_release != self._release

    def _start(self, members: Sequence[Member]) -> None:
        if members:
            self._stage += 1
        for one in members:
            state = self._observed.state(one.name)
            # With create and scale, a process that is not ready yet has only just been started.
            slow = self._verb in {Verb.CREATE, Verb.SCALE} and not self._is_other(one, state)
            restart = state.running and not slow
            self.steps.append(Step(stage=self._stage, action=Action.START, member=one.name, restart=restart))

    # --- members that leave -----------------------------------------------------------------------------------------

    # --- the end of an upgrade --------------------------------------------------------------------------------------

    def finish(self, *, hold_level: bool) -> None:
        """Remove releases that are too old to go back to, and raise the level when every member is upgraded."""
        for member in self._spec.members:
            state = self._observed.state(member.name)
            kept = {self._release, state.started_release, state.current}
            if state.started_release == self._release:
                kept.add(state.former_release)
            old = sorted(state.idle_releases - kept) if self._release and state.reachable else []
            if old:
                self._stage += 1
                self.steps.append(
                    Step(stage=self._stage, action=Action.PRUNE, member=member.name, detail=", ".join(old))
                )
        level, speaks = self._observed.level, self._speaks
        if hold_level or self.left or level is None or speaks is None or level >= speaks.newest:
            return
        self._add(Action.RAISE_LEVEL, self._spec.masters[:1], detail=str(speaks.newest))

    def _remove_leaving(self, forget: Collection[str]) -> None:
        workers = [one for one in self._leaving if one.role is Role.WORKER]
        nodes = self._observed.nodes or {}
        known = [one for one in workers if one.name in nodes]
        self._add(Action.DRAIN, [one for one in known if nodes[one.name].ready])
        self._add(Action.DELETE_NODE, known)
        self._remove(workers, forget)
        self._remove([one for one in self._leaving if one.role is Role.MASTER], forget)

    def delete(self, forget: Collection[str]) -> None:
        """Remove every member, workers first."""
        members = {**{one.name: one for one in self._spec.members}, **self._observed.inventory}
        placed = [
            one
            for one in members.values()
            if one.name in self._observed.inventory or self._observed.state(one.name).cluster == self._spec.name
        ]
        self._remove([one for one in placed if one.role is Role.WORKER], forget)
        self._remove([one for one in placed if one.role is Role.MASTER], forget)

    def _remove(self, members: Sequence[Member], forget: Collection[str]) -> None:
        there = [one for one in members if not self._obstacle(one)]
        lost = [one for one in members if one not in there]
        self._add(Action.REMOVE, there)
        self._add(Action.FORGET, [one for one in lost if one.name in forget])
        self.left.extend(
            f"{one.name} is not removed: {self._obstacle(one)}; "
            f"run again when its machine answers, or with --forget {one.name}"
            for one in lost
            if one.name not in forget
        )

    def _obstacle(self, member: Member) -> str:
        """Why a member cannot be removed; empty if it can."""
        state = self._observed.state(member.name)
        if state.cluster not in {"", self._spec.name}:
            return f"its folder belongs to the cluster {state.cluster}"
        return state.fault

    def _add(self, action: Action, members: Sequence[Member], *, detail: str = "") -> None:
        """One stage with the same action for some members."""
        if members:
            self._stage += 1
        self.steps.extend(Step(stage=self._stage, action=action, member=one.name, detail=detail) for one in members)


def _refusal(message: str, remedy: str) -> errors.UserError:
    return errors.UserError(message, remedy)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())
