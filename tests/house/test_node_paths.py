"""No pod of ours mounts a directory of the nodes that was not held against nodePaths after rendering.

What writes objects is one class, which judges every manifest; and the judge sees each hostPath that a manifest has,
whatever the spec and the plan were.
"""

from __future__ import annotations

import ast
import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from windlass_operator.cluster.apply import Applier, must_mount_allowed
from windlass_operator.errors import UserError
from windlass_operator.manifests.volume import model_volume, mounted_node_paths, within, within_volume
from windlass_operator.reconcile.desired_state import parse_service
from windlass_sizing.model.facts import stays_inside

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "contract"))

from spec_changes import BASE, CHANGES, SETTINGS, changed, merged, rendered  # noqa: E402 - the path above comes first

OPERATOR = ROOT / "operator" / "src" / "windlass_operator"
# Who writes otherwise than through the Applier, and why that brings no pod.
BESIDE = {
    "reconcile/workload_stage.py end_replicas": "the number of replicas alone",
    "reconcile/download_stage.py _disown": "owner references alone",
    "reconcile/download_stage.py _keep": "owner references, annotations and the end of its pods alone",
    "reconcile/reconciler.py _keep": "annotations and the end of its pods alone",
}
ON_NODES = {"hostPath": {"path": "/data/m"}, "gooseFSx": {"mountPath": "/data/g", "path": "m"}}


def writers() -> Iterator[str]:
    """Functions above the package `cluster` that hand an object to the API server without the Applier."""
    for path in sorted(path for path in OPERATOR.rglob("*.py") if path.parent.name != "cluster"):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and _writes(call.func):
                    yield f"{path.relative_to(OPERATOR)} {function.name}"


def _writes(called: ast.expr) -> bool:
    if not isinstance(called, ast.Attribute) or called.attr not in ("apply", "create", "overwrite"):
        return False
    return ast.unparse(called.value).endswith("cluster")


def on_nodes(value: Any) -> Iterator[str]:
    """The path of every hostPath in a manifest, wherever it stands."""
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in rows:
        if key == "hostPath" and isinstance(inner, dict):
            yield str(inner["path"])
        yield from on_nodes(inner)


def is_refused(manifest: dict[str, Any], *allowed: str) -> bool:
    try:
        must_mount_allowed(manifest, allowed)
    except UserError as error:
        assert error.reason == "NodePathForbidden"
        return True
    return False


def check(manifest: dict[str, Any]) -> int:
    """How many directories of the nodes it mounts, each of which the judge sees."""
    found = list(on_nodes(manifest))
    assert list(mounted_node_paths(manifest)) == found
    assert not is_refused(manifest, *found)
    for path in found:  # one of them alone is enough
        others = [one for one in found if not within(path, [one])]
        assert is_refused(manifest, *others)
    return len(found)


def test_objects_with_pods_are_written_by_the_applier_alone() -> None:
    """A new writer goes through it, or is named here with what it writes."""
    assert set(writers()) == set(BESIDE)


def test_the_applier_judges_whatever_it_writes() -> None:
    manifest = {
        "kind": "Deployment",
        "metadata": {"name": "m", "namespace": "a"},
        "spec": {"template": {"spec": {"volumes": [{"name": "x", "hostPath": {"path": "/etc"}}]}}},
    }
    cluster: Any = None  # nothing comes so far as to be written
    applier = Applier(cluster, ("/data",))
    for write in (applier.apply(manifest, None), applier.create(manifest)):
        with pytest.raises(UserError, match="/etc"):
            asyncio.run(write)


def test_every_node_path_of_the_golden_manifests_is_seen() -> None:
    files = sorted((ROOT / "operator" / "tests" / "golden").rglob("*.yaml"))
    assert sum(check(one) for path in files for one in yaml.safe_load_all(path.read_text())) > 0


@pytest.mark.parametrize("source", [None, *ON_NODES])
def test_every_node_path_of_every_field_is_seen(source: str | None) -> None:
    """Each field of the spec with what it needs, on a claim and on both sources that are directories of the nodes."""
    seen = 0
    for path, (around, value) in CHANGES.items():
        spec = changed(merged(BASE, around), path, value)
        if source and "source" not in around.get("model", {}) and not path.startswith("model.source"):
            spec["model"]["source"] = {source: ON_NODES[source]}
        try:
            manifests = rendered(spec)
        except UserError:
            continue  # refused before anything is rendered
        seen += sum(check(one) for one in manifests)
        assert not any(is_refused(one, *SETTINGS.node_paths) for one in manifests), path
    assert seen > 0


@given(st.lists(st.sampled_from(["", ".", "..", "a", "b c", "..a", "/", "//", "~"]), max_size=6).map("/".join))
def test_a_base_that_is_believed_lies_within_the_directory_that_was_looked_at(base: str) -> None:
    """Any path that facts or a plan may name."""
    for kind, source in ON_NODES.items():
        spec = merged(BASE, {"model": {"source": {kind: source}}})
        service = parse_service({"metadata": {"name": "m", "namespace": "a", "uid": "u"}, "spec": spec})
        volume = model_volume(service.spec.model.source)
        mounted, _ = within_volume(volume, base)
        assert within(mounted["hostPath"]["path"], [volume.node_path]) or not stays_inside(base)
