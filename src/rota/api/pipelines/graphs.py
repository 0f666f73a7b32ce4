"""The order of steps: dependencies, cycles, and layers for drawing.

Steps are names; a graph maps each to its dependencies. A reference to another step's outputs or status is a dependency,
with or without `dependsOn`, and so is `near`: the node of the other step is known when it has ended.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from rota.api.pipelines import expressions
from rota.api.pipelines.expressions import Reference

Graph: TypeAlias = Mapping[str, frozenset[str]]


def graph(steps: Iterable[Mapping[str, Any]]) -> dict[str, frozenset[str]]:
    """The dependencies of the steps of a Pipeline; ExpressionError if an expression is invalid."""
    return {step["name"]: frozenset({*(step.get("dependsOn") or ()), *referred(step), *_near(step)}) for step in steps}


def _near(step: Mapping[str, Any]) -> list[str]:
    """The steps beside which a step should run; those that are filled in are known by what fills them in."""
    return [name for name in step.get("near") or () if "{{" not in name]


def referred(step: Mapping[str, Any]) -> set[str]:
    """The steps whose outputs or status a step mentions."""
    found: set[Reference] = set(expressions.references({key: step[key] for key in step if key != "when"}))
    if step.get("when"):
        found |= expressions.condition(step["when"]).references
    return {reference[1] for reference in found if reference[0] == "steps" and len(reference) > 1}


def cycle(known: Graph) -> list[str]:
    """Steps that wait for each other in a circle, the first repeated at the end; empty if there are none."""
    done: set[str] = set()
    for start in known:
        way: list[str] = []
        inside: set[str] = set()
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                inside.discard(way.pop())
                done.add(name)
            elif name in inside:
                return [*way[way.index(name) :], name]
            elif name not in done:
                inside.add(name)
                way.append(name)
                stack.append((name, True))
                stack += [(other, False) for other in sorted(known[name], reverse=True) if other in known]
    return []


def layers(known: Graph) -> list[list[str]]:
    """Steps by how many others come before them at least, in the order in which they were written."""
    depth: dict[str, int] = {}
    for name in order(known):
        depth[name] = 1 + max((depth[other] for other in known[name] if other in depth), default=-1)
    found: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name in known:
        found[depth[name]].append(name)
    return found


def order(known: Graph) -> Sequence[str]:
    """All steps, each after those it waits for; of a graph without cycles."""
    found: dict[str, None] = {}
    stack = [(name, False) for name in reversed(list(known))]
    while stack:
        name, ready = stack.pop()
        if name in found:
            continue
        if ready:
            found[name] = None
        else:
            stack.append((name, True))
            stack += [(other, False) for other in sorted(known[name], reverse=True) if other in known]
    return list(found)
