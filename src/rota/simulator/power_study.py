"""CloudSim's power study: virtual machines with recorded CPU use on hosts that may be switched off. Pure.

The rules are CloudSim's: 800 hosts of two kinds with their measured watts, virtual machines of four sizes, a step every
five minutes. A host without machines is off. Machines are created with their full size and memory; afterwards they
request what they use, and no memory, as in the tool. The figures are its own:

- energy of all hosts that are on;
- SLATAH: the part of its time on for which a host is asked for more than it has, the mean over hosts;
- PDM: the part of the requested work that is lost to migrations, a tenth of the use while memory is copied;
- SLAV, their product, and ESV, energy times SLAV.

A policy is asked once a step for the new host of every machine. `local_regression` is the published LR-MMT: Loess
over ten samples with a safety of 1.2 finds overloaded hosts, machines with the least memory leave them, the least
increase of power chooses their new hosts, and the least used hosts are emptied if all of their machines fit
elsewhere. `by_forecast` is ours.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rota.forecast.arrays import Booleans, Floats, Integers
from rota.forecast.peaks import Reserve

STEP_S = 300.0
#: MIPS of a host (two cores), and watts at 0, 10 .. 100 % use: ProLiant ML110 G4 and G5, in turn.
HOST_MIPS = (2 * 1860.0, 2 * 2660.0)
HOST_WATTS = (
    (86, 89.4, 92.6, 96, 99.5, 102, 106, 108, 112, 114, 117),
    (93.7, 97, 101, 105, 110, 116, 121, 125, 129, 133, 135),
)
HOST_RAM = 4096.0
#: MIPS and MiB of the sizes of machines, in turn.
VM_MIPS = (2500.0, 2000.0, 1000.0, 500.0)
VM_RAM = (870.0, 1740.0, 1740.0, 613.0)
#: MiB per second: half of a gigabit.
MIGRATION_SPEED = 62.5
_LOST = 0.1
_SAFETY, _FALLBACK, _WINDOW = 1.2, 0.7, 10


class Hosts:
    """The hosts and the machines on them at one step."""

    def __init__(self, hosts: int, usage: Floats) -> None:
        kinds = np.arange(hosts) % 2
        self.capacity: Floats = np.array(HOST_MIPS)[kinds]
        self._watts = np.array(HOST_WATTS, dtype=np.float64)[kinds]
        sizes = np.arange(len(usage)) % 4
        self.mips: Floats = np.array(VM_MIPS)[sizes]
        self.ram: Floats = np.array(VM_RAM)[sizes]
        #: The use of each machine in MIPS; a machine has one core.
        self.demand: Floats = np.minimum(usage, 1.0) * self.mips[:, None]
        self.host_of: Integers = np.full(len(usage), -1, dtype=np.int64)

    def sums(self, of_machine: Floats) -> Floats:
        """The sum over the machines of each host."""
        there = self.host_of >= 0
        found = np.zeros(len(self.capacity))
        np.add.at(found, self.host_of[there], of_machine[there])
        return found

    def watts(self, load: Floats, rows: Integers | slice = slice(None)) -> Floats:
        """The power at this load, as if the hosts were on."""
        tenths = np.clip(load / self.capacity[rows], 0.0, 1.0) * 10
        below = np.minimum(tenths.astype(np.int64), 9)
        table = self._watts[rows]
        at = np.arange(len(table))
        return np.asarray(table[at, below] + (table[at, below + 1] - table[at, below]) * (tenths - below))


Policy = Callable[[Hosts, int], Integers]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures of a run."""

    energy_kwh: float
    migrations: int
    slatah: float
    pdm: float
    mean_hosts: float

    @property
    def slav(self) -> float:
        """Violation by overload times violation by migration."""
        return self.slatah * self.pdm

    @property
    def esv(self) -> float:
        """Energy times violation."""
        return self.energy_kwh * self.slav


def run(usage: Floats, policy: Policy, *, hosts: int = 800) -> Outcome:
    """Run a day: usage as shares of each machine, shape (machines, steps)."""
    made = Hosts(hosts, usage)
    _create(made)
    steps = usage.shape[1]
    energy, migrations, active_steps = 0.0, 0, 0
    on_time, full_time = np.zeros(hosts), np.zeros(hosts)
    lost = np.zeros(len(usage))
    for step in range(steps):
        load = made.sums(made.demand[:, step])
        awake = np.bincount(made.host_of, minlength=hosts) > 0
        energy += float(made.watts(load)[awake].sum()) * STEP_S
        on_time += awake
        full_time += awake & (load > made.capacity)
        active_steps += int(awake.sum())
        # Machines move after their use was measured, and are on their new hosts when it changes.
        target = policy(made, step)
        moved = target != made.host_of
        migrations += int(moved.sum())
        lost += np.where(moved, _LOST * made.demand[:, step] * made.ram / MIGRATION_SPEED, 0.0)
        made.host_of = target
    used = on_time > 0
    asked = np.maximum(made.demand.sum(axis=1) * STEP_S, 1e-9)
    return Outcome(
        energy / 3.6e6,
        migrations,
        float((full_time[used] / on_time[used]).mean()),
        float((lost / asked).mean()),
        active_steps / steps,
    )


def _create(made: Hosts) -> None:
    """Place machines with their full size and memory, by the least increase of power."""
    load, ram = np.zeros(len(made.capacity)), np.zeros(len(made.capacity))
    for machine in np.argsort(-made.mips, kind="stable"):
        fits = (load + made.mips[machine] <= made.capacity) & (ram + made.ram[machine] <= HOST_RAM)
        growth = np.where(fits, made.watts(load + made.mips[machine]) - made.watts(load), np.inf)
        chosen = int(growth.argmin())
        if not np.isfinite(growth[chosen]):
            raise ValueError("the machines do not fit on the hosts")
        made.host_of[machine] = chosen
        load[chosen] += made.mips[machine]
        ram[chosen] += made.ram[machine]


# --- the published policy ---------------------------------------------------------------------------------------------


def regression_weights(length: int = _WINDOW) -> Floats:
    """What each of the last samples adds to Loess' prediction of the next one; the prediction is linear in them."""
    x = np.arange(1.0, length + 1)
    weights = (1 - ((length - x) / length) ** 3) ** 3
    centre = (weights * x).sum() / weights.sum()
    spread = (weights * (x - centre) ** 2).sum()
    return np.asarray(weights / weights.sum() + weights * (x - centre) * (length + 1 - centre) / spread)


def local_regression(made: Hosts, step: int) -> Integers:
    """LR-MMT with a safety of 1.2."""
    demand = made.demand[:, step]
    if step + 1 >= _WINDOW:
        predicted = made.demand[:, step + 1 - _WINDOW : step + 1] @ regression_weights() * _SAFETY
    else:
        predicted = demand / _FALLBACK
    target = made.host_of.copy()
    load, ahead = made.sums(demand), made.sums(predicted)
    over = ahead >= made.capacity
    leaving: dict[int, int] = {}
    for host in np.flatnonzero(over).tolist():
        inside = np.flatnonzero(target == host)
        for machine in inside[np.argsort(made.ram[inside], kind="stable")].tolist():
            if ahead[host] < made.capacity[host]:
                break
            leaving[machine] = host
            load[host] -= demand[machine]
            ahead[host] -= predicted[machine]
            target[machine] = -1
    received = np.zeros(len(load), dtype=np.bool_)
    for machine in sorted(leaving, key=lambda each: -demand[each]):
        if _place(made, [machine], target, demand, predicted, load, ahead, ~over):
            received[target[machine]] = True
        else:
            target[machine] = leaving[machine]
    _empty(made, target, demand, predicted, load, ahead, closed=over | received)
    return target


def _place(
    made: Hosts,
    machines: list[int],
    target: Integers,
    demand: Floats,
    predicted: Floats,
    load: Floats,
    ahead: Floats,
    allowed: Booleans,
) -> bool:
    """Place machines one after the other, the largest first; False as soon as one does not fit."""
    for machine in sorted(machines, key=lambda each: -demand[each]):
        fits = allowed & (load + demand[machine] <= made.capacity) & (ahead + predicted[machine] < made.capacity)
        rows = np.flatnonzero(fits)
        if not len(rows):
            return False
        growth = made.watts(load[rows] + demand[machine], rows) - made.watts(load[rows], rows)
        chosen = int(rows[growth.argmin()])
        target[machine] = chosen
        load[chosen] += demand[machine]
        ahead[chosen] += predicted[machine]
    return True


def _empty(
    made: Hosts,
    target: Integers,
    demand: Floats,
    predicted: Floats,
    load: Floats,
    ahead: Floats,
    *,
    closed: Booleans,
) -> None:
    """Empty the least used hosts whose machines all fit on other hosts that are on."""
    awake = np.bincount(target, minlength=len(load)) > 0
    candidates, receiving = awake & ~closed, awake.copy()
    receiving &= ~(ahead >= made.capacity)
    while candidates.any():
        share = np.where(candidates, load / made.capacity, np.inf)
        host = int(share.argmin())
        candidates[host] = False
        machines = np.flatnonzero(target == host).tolist()
        before = target[machines].copy(), load.copy(), ahead.copy()
        load[host] = ahead[host] = 0.0
        allowed = receiving.copy()
        allowed[host] = False
        if _place(made, machines, target, demand, predicted, load, ahead, allowed):
            receiving[host] = False
            candidates[target[machines]] = False
        else:
            target[machines], load[:], ahead[:] = before


# --- ours -------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ByForecast:
    """Keep the forecast peak of each host below its capacity, with few moves.

    The peak of a host is the reserve predictor over its machines. A host whose mean and a part of its deviation exceed
    its capacity gives away its largest machines. A host is emptied only if all of its machines fit under the forecast
    peaks of others, so that they need not move again soon; and only every `every` steps, because a move must pay off
    by the idle power of the host that sleeps.
    """

    reserve: Reserve = field(default_factory=lambda: Reserve(1.0, 0.1))
    history: int = 24
    every: int = 24
    #: The part of the capacity that forecasts may fill when a host receives machines.
    fill: float = 0.95
    #: Deviations above the mean at which a host gives machines away; fewer than it is filled by.
    relief_sigmas: float = 0.5
    warm_up: int = 2

    def __call__(self, made: Hosts, step: int) -> Integers:
        """The new host of every machine."""
        seen = made.demand[:, max(0, step + 1 - self.history) : step + 1]
        known = step + 1 >= self.warm_up
        mean = np.maximum(seen.mean(axis=1), seen[:, -1])
        variance = seen.var(axis=1)
        square = variance * self.reserve.sigmas**2 + (self.reserve.bursts * made.mips) ** 2
        target = made.host_of.copy()
        sums = [made.sums(mean), made.sums(square)]
        self._relieve(made, target, mean, square, sums, made.sums(variance))
        if known and (step + 1 - self.warm_up) % self.every == 0:
            # A machine that is moved twice within a step moves once.
            while self._consolidate(made, target, mean, square, sums):
                pass
        return target

    def _relieve(
        self, made: Hosts, target: Integers, mean: Floats, square: Floats, sums: list[Floats], variance: Floats
    ) -> None:
        margin = self.relief_sigmas * np.sqrt(variance)
        for host in np.flatnonzero(sums[0] + margin > made.capacity).tolist():
            while sums[0][host] + margin[host] > made.capacity[host]:
                inside = np.flatnonzero(target == host)
                if len(inside) < 2:
                    break
                machine = int(inside[mean[inside].argmax()])
                if not self._move(made, machine, target, mean, square, sums, asleep=True):
                    break

    def _consolidate(self, made: Hosts, target: Integers, mean: Floats, square: Floats, sums: list[Floats]) -> bool:
        """Empty hosts, each of them once; returns whether one was emptied."""
        awake = np.bincount(target, minlength=len(made.capacity)) > 0
        order = np.argsort(np.where(awake, sums[0] / made.capacity, np.inf), kind="stable")[: int(awake.sum())]
        received = np.zeros(len(awake), dtype=np.bool_)
        for host in order.tolist():
            if received[host]:
                continue
            machines = np.flatnonzero(target == host)
            before = target.copy(), sums[0].copy(), sums[1].copy()
            moved = all(
                self._move(made, int(machine), target, mean, square, sums, asleep=False)
                for machine in machines[np.argsort(-mean[machines], kind="stable")]
            )
            if moved:
                received[target[machines]] = True
            else:
                target[:], sums[0][:], sums[1][:] = before
        return bool(received.any())

    def _move(
        self,
        made: Hosts,
        machine: int,
        target: Integers,
        mean: Floats,
        square: Floats,
        sums: list[Floats],
        *,
        asleep: bool,
    ) -> bool:
        """Move a machine to the host whose power grows least, the fullest of equals; wake one if need be."""
        source = int(target[machine])
        awake = np.bincount(target, minlength=len(made.capacity)) > 0
        peak = sums[0] + mean[machine] + np.sqrt(np.maximum(sums[1], 0.0) + square[machine])
        fits = peak <= self.fill * made.capacity
        fits[source] = False
        rows = np.flatnonzero(fits & awake)
        if not len(rows) and asleep:
            rows = np.flatnonzero(fits & ~awake)
        if not len(rows):
            return False
        load = sums[0][rows]
        growth = made.watts(load + mean[machine], rows) - made.watts(load, rows)
        chosen = int(rows[np.lexsort((-load / made.capacity[rows], np.rint(growth * 10)))[0]])
        for total, value in zip(sums, (mean, square), strict=True):
            total[source] -= value[machine]
            total[chosen] += value[machine]
        target[machine] = chosen
        return True
