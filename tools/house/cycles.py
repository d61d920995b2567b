"""No module of a distribution imports itself by way of others; layers hold packages apart, this holds modules."""

from __future__ import annotations

from collections.abc import Iterator

from grimp import ImportGraph, build_graph

from .tree import Offence, Tree

DISTRIBUTIONS = (
    *("windlass_base", "windlass_sizing", "windlass_api", "windlass_operator", "windlass_download"),
    *("windlass_client", "windlass_kubectl", "windlass_console"),
    *("windlass_license", "windlass", "windlass_deepspeed", "windlass_testbed"),
)


def modules(tree: Tree) -> Iterator[Offence]:
    """No ring of imports, also where one only serves types: the reader meets the ring all the same."""
    for distribution in DISTRIBUTIONS:
        for ring in rings(build_graph(distribution, cache_dir=None)):
            first = min(ring)
            path = next(tree.matching(f"*/src/{first.replace('.', '/')}.py", f"*/src/{first.replace('.', '/')}/*.py"))
            yield Offence(path, 1, f"imports itself by way of others: {', '.join(sorted(ring))}")


def rings(graph: ImportGraph) -> list[set[str]]:
    """Return sets of modules that import each other: each lies above and below the others."""
    found, seen = [], set[str]()
    for module in sorted(graph.modules):
        if module in seen:
            continue
        ring = {one for one in graph.find_downstream_modules(module) if module in graph.find_downstream_modules(one)}
        seen |= ring
        if ring:
            found.append(ring | {module})
    return found
