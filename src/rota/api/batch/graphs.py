"""Dependencies between named things, as tasks of a Job and flows of a JobFlow have them."""

from collections.abc import Mapping, Sequence


def cycle(dependencies: Mapping[str, Sequence[str]]) -> list[str]:
    """The names of a cycle in their order; empty if there is none. Unknown names are left out."""
    done: set[str] = set()
    for start in dependencies:
        if start in done:
            continue
        path, stack = [start], [iter(dependencies[start])]
        while stack:
            following = next((one for one in stack[-1] if one in dependencies and one not in done), None)
            if following is None:
                stack.pop()
                done.add(path.pop())
                continue
            if following in path:
                return [*path[path.index(following) :], following]
            path.append(following)
            stack.append(iter(dependencies[following]))
    return []
