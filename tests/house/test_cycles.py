"""No module of a distribution imports itself by way of others; layers hold packages apart, this holds modules."""

from __future__ import annotations

import pytest
from grimp import ImportGraph, build_graph

DISTRIBUTIONS = (
    *("windlass_base", "windlass_sizing", "windlass_api", "windlass_operator", "windlass_download"),
    *("windlass_client", "windlass_kubectl", "windlass_console"),
    *("windlass_license", "windlass", "windlass_deepspeed", "windlass_testbed"),
)


def cycles(graph: ImportGraph) -> list[set[str]]:
    """Modules that import each other in a ring: what is left when all that ends nowhere and starts nowhere is away."""
    found, seen = [], set[str]()
    for module in sorted(graph.modules):
        if module in seen:
            continue
        ring = {one for one in graph.find_downstream_modules(module) if module in graph.find_downstream_modules(one)}
        seen |= ring
        if ring:
            found.append(ring | {module})
    return found


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_no_module_imports_itself_by_way_of_others(distribution: str) -> None:
    """Also where the import only serves types: the reader meets the ring all the same."""
    assert cycles(build_graph(distribution, cache_dir=None)) == []


def test_a_ring_is_seen() -> None:
    """Two modules that import each other are one ring; one that imports them is none."""
    graph = ImportGraph()
    for importer, imported in (("a", "b"), ("b", "a"), ("c", "a")):
        graph.add_import(importer=importer, imported=imported)
    assert cycles(graph) == [{"a", "b"}]
