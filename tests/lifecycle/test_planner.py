"""Plans: their order, what they refuse, and that a plan that was cut off anywhere is resumed by planning again."""

import random
from dataclasses import replace

import pytest
from tests.lifecycle.specs import parsed

from rota.kit.errors import UserError
from rota.kit.levels import Levels
from rota.lifecycle import planner, service_units
from rota.lifecycle.cluster_spec import ClusterSpec, Member, Role
from rota.lifecycle.observed import MemberState, NodeState, Observed
from rota.lifecycle.planner import Verb
from rota.lifecycle.steps import Action, Plan, Step


class Machines:
    """Machines in memory, on which steps have the effect that the runner's have."""

    def __init__(self) -> None:
        self.states: dict[str, MemberState] = {}
        self.inventory: dict[str, Member] = {}
        self.nodes: dict[str, NodeState] = {}
        #: The level of the cluster, and releases from which shims of a member run.
        self.level = 0
        self.shims: dict[str, set[str]] = {}

    def observed(self, spec: ClusterSpec) -> Observed:
        serving = any(one.serving for one in self.states.values())
        return Observed(
            members={name: self.state(name) for name in {*(one.name for one in spec.members), *self.states}},
            inventory=dict(self.inventory),
            nodes=dict(self.nodes) if serving else None,
            level=self.level if serving else None,
        )

    def state(self, name: str) -> MemberState:
        found = self.states.get(name, MemberState(python="3.11.2"))
        busy = {found.started_release, *self.shims.get(name, ())}
        return replace(found, idle_releases=found.releases - busy)

    def lose(self, name: str) -> None:
        self.states[name] = replace(self.state(name), fault="ssh fails", running=False, serving=False)
        if name in self.nodes:
            self.nodes[name] = NodeState(ready=False)

    def replace_machine(self, name: str) -> None:
        self.states[name] = MemberState(python="3.11.2")

    def plan(
        self,
        verb: Verb,
        spec: ClusterSpec,
        *,
        release: str = "",
        forget: tuple[str, ...] = (),
        hold_level: bool = False,
        speaks: Levels | None = None,
    ) -> Plan:
        return planner.plan(
            verb,
            spec,
            self.observed(spec),
            release=release,
            speaks=speaks,
            hold_level=hold_level,
            forget=forget,
        )

    def run(
        self,
        verb: Verb,
        spec: ClusterSpec,
        *,
        release: str = "",
        most: int | None = None,
        hold_level: bool = False,
        speaks: Levels | None = None,
    ) -> Plan:
        plan = self.plan(verb, spec, release=release, hold_level=hold_level, speaks=speaks)
        for step in plan.steps[:most]:
            self.take(step, spec, release)
        return plan

    def take(self, step: Step, spec: ClusterSpec, release: str) -> None:
        name, state = step.member, self.state(step.member)
        assert state.reachable or step.action in {Action.FORGET, Action.DELETE_NODE}
        member = spec.member(name) or self.inventory[name]
        match step.action:
            case Action.PREPARE:
                self.inventory[name] = member
                self.states[name] = replace(state, placed=True, cluster=spec.name)
            case Action.INSTALL:
                assert state.placed
                self.states[name] = replace(state, releases=state.releases | {step.detail})
            case Action.COPY_KEYS:
                assert self.state(step.detail).has_keys
                self.states[name] = replace(state, has_keys=True)
            case Action.START | Action.JOIN:
                self._start(member, state, spec, release, joins=step.action is Action.JOIN)
            case Action.DRAIN:
                assert self.nodes[name].ready
            case Action.DELETE_NODE:
                self.nodes.pop(name, None)
            case Action.REMOVE | Action.FORGET:
                self.states.pop(name)
                self.inventory.pop(name)
            case Action.PRUNE:
                gone = set(step.detail.split(", "))
                assert gone.isdisjoint({state.started_release, state.former_release, *self.shims.get(name, ())})
                self.states[name] = replace(state, releases=state.releases - gone)
            case Action.RAISE_LEVEL:
                masters = [self.state(one.name) for one in spec.masters]
                assert all(one.serving and one.started_release == release for one in masters)
                self.level = int(step.detail)

    def _start(self, member: Member, state: MemberState, spec: ClusterSpec, release: str, *, joins: bool) -> None:
        assert state.placed
        assert not release or release in state.releases
        digest = service_units.service(spec, member).digest
        former = state.started_release if state.started_release != release else state.former_release
        started = replace(
            state, running=True, digest=digest, started_release=release, current=release, former_release=former
        )
        if member.role is Role.MASTER:
            others = [one for one in self.inventory.values() if one.role is Role.MASTER and one.name != member.name]
            # A second master with keys of its own would not start.
            assert state.has_keys or not any(self.state(one.name).has_keys for one in others)
            self.states[member.name] = replace(started, has_keys=True, serving=True)
            return
        assert any(one.serving for one in self.states.values())
        assert joins or state.joined
        assert not joins or member.name not in self.nodes
        self.states[member.name] = replace(started, joined=True)
        self.nodes[member.name] = NodeState(ready=True)


def words(plan: Plan) -> list[str]:
    return [one.key for one in plan.steps]


@pytest.fixture
def machines() -> Machines:
    return Machines()


def test_the_first_master_makes_the_keys_the_others_get_a_copy_and_workers_join_last(machines: Machines) -> None:
    plan = machines.plan(Verb.CREATE, parsed(3, 2))
    assert words(plan) == [
        *(f"prepare/{name}" for name in ("m1", "m2", "m3", "w1", "w2")),
        "start/m1",
        "copy-keys/m2",
        "copy-keys/m3",
        "start/m2",
        "start/m3",
        "join/w1",
        "join/w2",
    ]
    assert [one.stage for one in plan.steps] == [1, 1, 1, 1, 1, 2, 3, 3, 4, 4, 5, 5]


def test_a_cluster_that_is_as_its_file_says_needs_no_step(machines: Machines) -> None:
    machines.run(Verb.CREATE, parsed(3, 2))
    for verb in (Verb.CREATE, Verb.SCALE, Verb.UPGRADE, Verb.REPAIR):
        assert machines.plan(verb, parsed(3, 2)) == Plan(steps=())


def test_an_upgrade_installs_everywhere_and_restarts_one_member_at_a_time_masters_first(machines: Machines) -> None:
    spec = parsed(2, 2, program="", bundle="rota.bundle")
    machines.run(Verb.CREATE, spec, release="1")
    plan = machines.run(Verb.UPGRADE, spec, release="2")
    assert words(plan) == [
        *(f"install/{name}" for name in ("m1", "m2", "w1", "w2")),
        *(f"start/{name}" for name in ("m1", "m2", "w1", "w2")),
    ]
    assert [one.stage for one in plan.steps] == [1, 1, 1, 1, 2, 3, 4, 5]
    assert all(one.restart for one in plan.steps[4:])
    # Back to the former release: it is installed still.
    assert words(machines.run(Verb.UPGRADE, spec, release="1")) == [
        f"start/{name}" for name in ("m1", "m2", "w1", "w2")
    ]


def _both(number: int) -> Levels:
    """The levels of a release that brings a new one."""
    return Levels(number - 1, number)


def test_an_upgrade_raises_the_level_last_and_can_be_taken_back_before_that(machines: Machines) -> None:
    spec = parsed(2, 1, program="", bundle="rota.bundle")
    machines.level = 4
    machines.run(Verb.CREATE, spec, release="4", speaks=_both(4))
    assert "raise-level/m1" not in words(
        machines.run(Verb.UPGRADE, spec, release="5", speaks=_both(5), hold_level=True)
    )
    assert words(machines.plan(Verb.UPGRADE, spec, release="5", speaks=_both(5))) == ["raise-level/m1"]
    machines.run(Verb.UPGRADE, spec, release="4", speaks=_both(4))
    assert machines.level == 4
    assert words(machines.run(Verb.UPGRADE, spec, release="5", speaks=_both(5)))[-2:] == ["start/w1", "raise-level/m1"]
    assert machines.level == 5
    with pytest.raises(
        UserError, match="release 4: the cluster has level 5, and this release knows levels up to 4; use"
    ):
        machines.plan(Verb.UPGRADE, spec, release="4", speaks=_both(4))
    with pytest.raises(UserError, match=r"release 7: .* needs level 6 or more; upgrade to a release of level 6 first"):
        machines.plan(Verb.UPGRADE, spec, release="7", speaks=_both(7))


def test_the_level_stays_while_a_member_cannot_be_upgraded(machines: Machines) -> None:
    spec = parsed(2, 1, program="", bundle="rota.bundle")
    machines.level = 1
    machines.run(Verb.CREATE, spec, release="1")
    machines.lose("w1")
    plan = machines.run(Verb.UPGRADE, spec, release="2", speaks=_both(2))
    assert "raise-level/m1" not in words(plan)
    assert plan.left == ("w1 is left out: ssh fails",)


def test_the_level_of_an_installed_program_is_that_of_the_running_masters(machines: Machines) -> None:
    spec = parsed(1, 1)
    machines.level = 1
    machines.run(Verb.CREATE, spec)
    observed = machines.observed(spec)
    assert planner.plan(Verb.UPGRADE, spec, replace(observed, master_levels=Levels(1, 1))).steps == ()
    plan = planner.plan(Verb.UPGRADE, spec, replace(observed, master_levels=Levels(1, 2)))
    assert words(plan) == ["raise-level/m1"]


def test_two_releases_are_kept_and_those_of_running_tasks(machines: Machines) -> None:
    spec = parsed(1, 1, program="", bundle="rota.bundle")
    machines.run(Verb.CREATE, spec, release="1")
    machines.shims["w1"] = {"1"}
    for release in ("2", "3"):
        machines.run(Verb.UPGRADE, spec, release=release)
    assert machines.states["m1"].releases == {"2", "3"}
    assert machines.states["w1"].releases == {"1", "2", "3"}
    machines.shims.clear()
    plan = machines.run(Verb.UPGRADE, spec, release="3")
    assert [one.text for one in plan.steps] == ["remove 1 from w1"]
    # The way back, and forward again.
    assert words(machines.run(Verb.UPGRADE, spec, release="2")) == ["start/m1", "start/w1"]
    assert words(machines.run(Verb.UPGRADE, spec, release="3")) == ["start/m1", "start/w1"]


def test_scaling_does_not_change_releases_and_says_so(machines: Machines) -> None:
    spec = parsed(1, 1, program="", bundle="rota.bundle")
    machines.run(Verb.CREATE, spec, release="1")
    plan = machines.plan(Verb.SCALE, parsed(1, 2, program="", bundle="rota.bundle"), release="2")
    assert words(plan) == ["prepare/w2", "install/w2", "join/w2"]
    assert len(plan.left) == 2
    assert "w1 runs another release or configuration" in plan.left[1]


def test_a_worker_that_leaves_is_drained_before_it_is_removed(machines: Machines) -> None:
    machines.run(Verb.CREATE, parsed(3, 3))
    plan = machines.run(Verb.SCALE, parsed(2, 2))
    assert words(plan) == ["drain/w3", "delete-node/w3", "remove/w3", "remove/m3"]
    assert set(machines.states) == {"m1", "m2", "w1", "w2"}


def test_an_unreachable_member_is_left_out_and_removed_when_it_returns(machines: Machines) -> None:
    machines.run(Verb.CREATE, parsed(1, 2))
    machines.lose("w2")
    plan = machines.run(Verb.SCALE, parsed(1, 1))
    assert words(plan) == ["delete-node/w2"]
    assert "w2 is not removed: ssh fails" in plan.left[0]
    assert words(machines.plan(Verb.SCALE, parsed(1, 1), forget=("w2",))) == ["forget/w2"]
    machines.states["w2"] = replace(machines.state("w2"), fault="")
    assert words(machines.run(Verb.SCALE, parsed(1, 1))) == ["remove/w2"]


def test_a_replaced_machine_is_installed_and_its_old_node_deleted(machines: Machines) -> None:
    machines.run(Verb.CREATE, parsed(2, 2))
    machines.lose("w2")
    machines.replace_machine("w2")
    machines.replace_machine("m1")
    plan = machines.run(Verb.REPAIR, parsed(2, 2))
    assert words(plan) == ["prepare/m1", "prepare/w2", "copy-keys/m1", "start/m1", "delete-node/w2", "join/w2"]


def test_keys_are_not_made_anew_while_a_lost_master_may_have_them(machines: Machines) -> None:
    machines.run(Verb.CREATE, parsed(2, 0))
    machines.lose("m1")
    machines.replace_machine("m2")
    with pytest.raises(UserError, match="the encryption keys of the cluster are on m1"):
        machines.plan(Verb.REPAIR, parsed(2, 0))


def test_a_master_that_no_journal_names_has_the_keys(machines: Machines) -> None:
    machines.run(Verb.CREATE, parsed(2, 0))
    machines.inventory.clear()
    machines.replace_machine("m2")
    assert "copy-keys/m2" in words(machines.plan(Verb.CREATE, parsed(2, 0)))


def test_a_folder_that_another_cluster_has_now_is_not_removed(machines: Machines) -> None:
    machines.run(Verb.CREATE, parsed(1, 1))
    machines.states["w1"] = replace(machines.state("w1"), cluster="prod")
    plan = machines.plan(Verb.DELETE, parsed(1, 1))
    assert words(plan) == ["remove/m1"]
    assert "w1 is not removed: its folder belongs to the cluster prod" in plan.left[0]
    assert words(machines.plan(Verb.DELETE, parsed(1, 1), forget=("w1",))) == ["forget/w1", "remove/m1"]


def test_a_running_worker_whose_node_was_deleted_joins_again(machines: Machines) -> None:
    machines.run(Verb.CREATE, parsed(1, 1))
    machines.nodes.clear()
    assert words(machines.plan(Verb.REPAIR, parsed(1, 1))) == ["join/w1"]


def test_deleting_removes_workers_then_masters_whatever_the_file_says(machines: Machines) -> None:
    machines.run(Verb.CREATE, parsed(2, 2))
    assert words(machines.run(Verb.DELETE, parsed(1, 1))) == ["remove/w1", "remove/w2", "remove/m1", "remove/m2"]
    assert machines.states == {}
    assert machines.plan(Verb.DELETE, parsed(1, 1)) == Plan(steps=())


def test_refusals_name_the_remedy(machines: Machines) -> None:
    with pytest.raises(UserError, match="there is no cluster lab; run 'rota cluster create'"):
        machines.plan(Verb.SCALE, parsed())
    machines.run(Verb.CREATE, parsed(1, 2))
    with pytest.raises(UserError, match="w2 of the cluster is not in the file"):
        machines.plan(Verb.CREATE, parsed(1, 1))
    with pytest.raises(UserError, match="other members than the cluster: w3"):
        machines.plan(Verb.UPGRADE, parsed(1, 3))
    with pytest.raises(UserError, match="m1 has the store of the cluster"):
        machines.plan(Verb.SCALE, parsed(1, 2, masters=[{"name": "m9", "address": "10.0.0.9"}]))
    with pytest.raises(UserError, match=r"w1 is a worker on 10.0.1.1"):
        machines.plan(Verb.SCALE, parsed(1, 2, workers=[{"name": "w1", "address": "10.7.7.7"}]))
    with pytest.raises(UserError, match="no systemd runs on"):
        machines.plan(Verb.REPAIR, parsed(1, 2, manager="systemd"))
    with pytest.raises(UserError, match="there is no member w9"):
        machines.plan(Verb.SCALE, parsed(1, 2), forget=("w9",))
    machines.states["w1"] = replace(machines.state("w1"), cluster="other")
    with pytest.raises(UserError, match="belongs to the cluster other"):
        machines.plan(Verb.REPAIR, parsed(1, 2))


def test_another_machine_with_the_name_of_a_new_worker_is_not_robbed_of_its_node(machines: Machines) -> None:
    machines.run(Verb.CREATE, parsed(1, 1))
    machines.nodes["w2"] = NodeState(ready=True)
    with pytest.raises(UserError, match="another machine runs as the node w2"):
        machines.plan(Verb.SCALE, parsed(1, 2))


def test_an_old_python_is_refused_where_a_bundle_is_installed(machines: Machines) -> None:
    machines.states["w1"] = MemberState(python="3.9.2")
    with pytest.raises(UserError, match=r"w1: python3 on 10.0.1.1 is 3.9.2; install Python 3.11"):
        machines.plan(Verb.CREATE, parsed(program="", bundle="b"), release="1")


@pytest.mark.parametrize("seed", range(300))
def test_wherever_runs_are_cut_off_the_next_ones_lead_to_the_file(machines: Machines, seed: int) -> None:
    """Random sizes one after the other; every run is cut off at random, then resumed until nothing is left to do."""
    rng = random.Random(seed)
    release, verb, spec = "1", Verb.CREATE, parsed()
    for _ in range(4):
        spec = parsed(rng.randint(2, 4), rng.randint(0, 4), program="", bundle="b")
        for _ in range(rng.randint(0, 3)):
            machines.run(verb, spec, release=release, most=rng.randint(0, 6))
            if verb is Verb.CREATE and not machines.inventory:
                continue
            verb = Verb.SCALE
        machines.run(verb, spec, release=release)
        assert machines.plan(Verb.SCALE, spec, release=release) == Plan(steps=())
        assert set(machines.inventory) == set(machines.states) == {one.name for one in spec.members}
        verb = Verb.SCALE
        machines.level, newer = int(release), str(int(release) + 1)
        for _ in range(rng.randint(0, 3)):
            if machines.level == int(release) and rng.random() < 0.3:
                machines.run(Verb.UPGRADE, spec, release=release, speaks=_both(int(release)), most=rng.randint(0, 6))
            machines.run(Verb.UPGRADE, spec, release=newer, speaks=_both(int(newer)), most=rng.randint(0, 6))
        machines.run(Verb.UPGRADE, spec, release=newer, speaks=_both(int(newer)))
        release = newer
        # Old releases of a run that was cut off are removed by the next one.
        machines.run(Verb.UPGRADE, spec, release=release, speaks=_both(int(newer)))
        assert machines.plan(Verb.UPGRADE, spec, release=release, speaks=_both(int(newer))) == Plan(steps=())
        assert {one.started_release for one in machines.states.values()} == {release}
        assert all(len(one.releases) <= 2 for one in machines.states.values())
        assert machines.level == int(release)
    machines.run(Verb.DELETE, spec, release=release, most=rng.randint(0, 6))
    machines.run(Verb.DELETE, spec, release=release)
    assert not machines.inventory
    assert not machines.states
