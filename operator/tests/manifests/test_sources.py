"""Every volume that a model is read from: mounted once, read-only, each at its place."""

from __future__ import annotations

import json

import pytest
from windlass_operator.errors import UserError
from windlass_operator.inspection.job import read_beside
from windlass_operator.manifests.inspect_job import inspect_job
from windlass_operator.manifests.sources import (
    adapter_path,
    base_model,
    inspected_mounts,
    inspected_rows,
    serving_mounts,
    volumes,
)
from windlass_operator.reconcile.desired_state import must_be_allowed, parse_service
from windlass_operator.settings import Settings

SETTINGS = Settings("windlass/server", "1", "windlass/operator:1", node_paths=("/data",))


def claim(name: str, path: str = "") -> dict:
    return {"pvc": {"claimName": name, "path": path}}


def a_service(source: dict, engine: dict | None = None, cache: str = "", **model: object):
    spec = {"model": {"id": "m", "source": source, **model}, "engine": engine or {}, "cache": {"pvc": cache}}
    return parse_service({"metadata": {"name": "m", "namespace": "a", "uid": "u"}, "spec": spec})


def test_a_base_on_the_adapters_claim_is_the_same_volume_at_another_place():
    """The kubelet waits for ever on a claim that is there twice."""
    mounts = serving_mounts(a_service(claim("models", "loras/sql")), "Qwen/Qwen2-7B")
    assert [(one.name, one.path, one.sub_path) for one in mounts] == [
        ("model", "/data/model", "loras/sql"),
        ("model", "/data/base/Qwen2-7B", "Qwen/Qwen2-7B"),
    ]
    assert volumes(mounts) == [{"name": "model", "persistentVolumeClaim": {"claimName": "models"}}]
    assert all(one.to_mount()["readOnly"] for one in mounts)


def test_a_base_beside_a_directory_of_the_node():
    """It is a directory below the one that the Job looked at."""
    service = a_service({"hostPath": {"path": "/data/models/sql"}})
    (_, base) = serving_mounts(service, "qwen 2")
    assert base.volume == {"hostPath": {"path": "/data/models/qwen 2", "type": "Directory"}}
    assert (base.name, base.path) == ("model-base", "/data/base/base")
    assert base_model(service, "qwen 2") == "/data/base/base"


def test_without_a_base_there_is_one_mount():
    """And the server is told of none."""
    service = a_service(claim("models", "qwen"))
    assert (len(serving_mounts(service, "")), base_model(service, "")) == (1, "")
    assert inspected_rows(service) == []


def test_an_adapter_of_another_volume_lies_at_a_place_of_its_own():
    """By its number in the spec; a path is one inside its source."""
    rows = [{"name": "a", "path": "x"}, {"name": "b:1", "path": "/v2/", "source": claim("loras", "b")}]
    service = a_service(claim("models"), adapters=rows)
    assert [adapter_path(service, index) for index in (0, 1)] == ["x", "/data/adapters/1/v2"]
    assert serving_mounts(service, "")[1].to_mount() == {
        "name": "model-adapter-1", "mountPath": "/data/adapters/1", "readOnly": True, "subPath": "b",
    }  # fmt: skip


def test_the_job_reads_what_its_manifest_names():
    """Roots as they are mounted, paths inside them, and the field for messages."""
    adapters = [{"name": "a", "path": "x"}, {"name": "b", "source": claim("loras", "b"), "merge": True}]
    engine = {"speculation": {"source": {"nfs": {"server": "s", "path": "/d"}}}}
    service = a_service(claim("models", "sql"), engine, adapters=adapters, base=claim("bases", "qwen"))
    beside = read_beside(json.dumps(inspected_rows(service)), merge=False)
    assert (str(beside.base.root), beside.base.path, beside.base.source) == ("/data/volume-base", "qwen", "PVC bases")
    assert (str(beside.draft.root), beside.draft.field) == (
        "/data/volume-draft",
        "spec.engine.speculation.source: path",
    )
    inner, other = beside.adapters
    assert (inner.name, inner.path, inner.own, inner.merge) == ("a", "x", None, False)
    assert (str(other.own.root), other.own.path, other.merge) == ("/data/volume-adapter-1", "b", True)
    assert [one.path for one in inspected_mounts(service)] == [
        "/data/volume", "/data/volume-base", "/data/volume-draft", "/data/volume-adapter-1",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["{", '{"role": 1}', '[{"role": "base"}]', "[1]"])
def test_rows_that_are_none_are_refused(text):
    """With a ValueError that the command line tells."""
    with pytest.raises(ValueError, match=r"--beside|Expecting"):
        read_beside(text, merge=False)


def test_a_service_without_all_this_keeps_its_job():
    """The Job's name is a digest of its pod: an update of the operator must not change it by this."""
    args = inspect_job(a_service(claim("models", "qwen")), "i", "Never")["spec"]["template"]["spec"]["containers"][0][
        "args"
    ]
    assert args == ["inspect", "--root", "/data/volume", "--path=qwen", "--source=pvc/models"]


@pytest.mark.parametrize("field", ["base", "adapters", "draft"])
def test_every_source_is_judged(field):
    """Node directories as this installation allows them, and never the claim of the cache."""

    def service(source: dict, cache: str = ""):
        if field == "draft":
            return a_service(claim("models"), {"speculation": {"source": source}}, cache)
        more = {"base": source} if field == "base" else {"adapters": [{"name": "a", "source": source}]}
        return a_service(claim("models"), None, cache, **more)

    with pytest.raises(UserError, match=r"points at /etc of the nodes"):
        must_be_allowed(service({"hostPath": {"path": "/etc"}}), SETTINGS)
    must_be_allowed(service({"hostPath": {"path": "/data/m/b"}}), SETTINGS)
    with pytest.raises(UserError, match=r"spec\.cache names loras, the claim of spec\."):
        service(claim("loras"), "loras")


def test_a_pod_template_covers_no_adapter():
    """Neither their places nor their volumes; elsewhere it mounts what it likes."""

    def overlaid(path: str, volume: str) -> None:
        piece = {"volumes": [{"name": volume, "emptyDir": {}}],
                 "containers": [{"name": "server", "volumeMounts": [{"name": volume, "mountPath": path}]}]}  # fmt: skip
        spec = {"model": {"id": "m", "source": claim("models"), "adapters": [{"name": "a", "source": claim("l")}]},
                "podTemplate": {"spec": piece}}  # fmt: skip
        meta = {"name": "m", "namespace": "a", "uid": "u"}
        must_be_allowed(parse_service({"metadata": meta, "spec": spec}), SETTINGS)

    with pytest.raises(UserError, match="would cover /data/adapters/0"):
        overlaid("/data/adapters", "mine")
    with pytest.raises(UserError, match="the operator's own volume has the name model-adapter-0"):
        overlaid("/mine", "model-adapter-0")
    overlaid("/data/adapters/1", "model-mine")
