"""Bad input on a real cluster: one clear sentence, no crash loop, no GPU taken."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from windlass_testbed import cluster
from windlass_testbed.errors import BedError

sys.path.insert(
    0, str(Path(__file__).parents[1] / "attack/faults")
)  # the corpus is a program; its modules lie together

import corpus
import fault_bed
from kubelet_faults import FAULTS, SAMPLE

TEAM = {"key": "team", "operator": "Exists"}


def source(path):
    return {"id": "demo", "source": {"pvc": {"claimName": "models", "path": path}}}


def no_server_pod(bed, namespace):
    return not bed.items(namespace, "pods", "-l", "app.kubernetes.io/component=server")


def test_a_wrong_path_is_reported_with_what_is_there(bed, namespace):
    bed.apply(namespace, "wrong-path", model=source("dmeo"))
    ready = bed.reason(namespace, "wrong-path", "PathNotFound")
    assert "dmeo" in ready["message"]
    assert "demo" in ready["message"].replace("dmeo", "")
    assert no_server_pod(bed, namespace)


def test_a_folder_without_config_is_reported(bed, namespace):
    folder = Path(bed.paths.run / "models" / "empty-model")
    folder.mkdir(exist_ok=True)
    (folder / "readme.txt").write_text("no model here")
    bed.apply(namespace, "no-config", model=source("empty-model"))
    ready = bed.reason(namespace, "no-config", "ConfigMissing")
    assert "config.json" in ready["message"]
    assert no_server_pod(bed, namespace)


def test_more_gpus_than_any_node_has_are_refused_with_what_there_is(bed, namespace):
    bed.apply(namespace, "too-many", resources={"gpus": 64})
    ready = bed.reason(namespace, "too-many", "NotEnoughGpus")
    assert "64" in ready["message"]
    assert "8" in ready["message"]
    assert no_server_pod(bed, namespace)


def test_node_terms_of_the_pod_template_hold_for_the_inspection_and_the_plan(bed, namespace):
    """No node has the name, then one has: its Job is made anew there, bears the toleration, and the plan counts on."""

    def apply(host):
        terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}]
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
        template = {"spec": {"affinity": affinity, "tolerations": [TEAM]}}
        bed.apply(namespace, "placed", resources={"gpus": 64}, podTemplate=template)

    apply("no-such-node")
    bed.reason(namespace, "placed", "NoMatchingNode")
    nodes = json.loads(bed.kubectl("get", "nodes", "-o", "json"))["items"]
    host = next(name for node in nodes if "worker" in (name := node["metadata"]["labels"]["kubernetes.io/hostname"]))
    apply(host)
    bed.reason(namespace, "placed", "NotEnoughGpus")
    pods = bed.items(namespace, "pods", "-l", "serving.windlass.dev/service=placed")
    placed = [pod["spec"] for pod in pods if "nodeName" in pod["spec"]]
    assert [(one["nodeName"], TEAM in one["tolerations"]) for one in placed] == [(host, True)]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"engine": {"quantization": "magic"}}, "quantization"),
        ({"engine": {"quantization": "ifq_nf4", "dtype": "bfloat16"}}, "float16"),
        ({"model": {"id": "demo", "source": {}}}, "exactly one"),
        ({"replicas": -1}, "replicas"),
    ],
    ids=["unknown quantization", "nf4 with bfloat16", "no source", "negative replicas"],
)
def test_the_api_server_refuses_in_our_words(bed, namespace, spec, words):
    with pytest.raises(BedError, match=words):
        bed.apply(namespace, "refused", **spec)


def test_broken_yaml_is_refused_by_kubectl(bed, namespace):
    with pytest.raises(BedError, match=r"yaml|YAML"):
        bed.kubectl("-n", namespace, "apply", "-f", "-", stdin="apiVersion: [\nkind: LLMService\n")


def test_a_corrected_path_heals(bed, namespace):
    bed.apply(namespace, "wrong-path", model=source("demo"), resources={"gpus": 64})
    bed.reason(namespace, "wrong-path", "NotEnoughGpus")


def test_a_foreign_license_file_changes_nothing(bed):
    other = bed.paths.run / "other-keys"
    tool = Path(__import__("sys").executable).parent / "windlass-license"
    subprocess.run([tool, "keygen", "--out", other], check=False, capture_output=True)
    listing, file = bed.paths.run / "foreign.gpus", bed.paths.run / "foreign.dat"
    listing.write_text("GPU 0: NVIDIA L20 (UUID: GPU-11111111-2222-3333-4444-555555555555)\n")
    file.unlink(missing_ok=True)
    words = ["issue", "--gpus", listing, "--customer", "x", "--appid", "1", "--expires", "2036-01-01T00:00:00+00:00"]
    subprocess.run([tool, *words, "--max-concurrent", "0", "--key", other / "private.pem", "--out", file], check=True)
    with pytest.raises(BedError, match="key"):
        bed.licenses.upload(file)


@pytest.fixture
def cheap(bed, namespace):
    """The corpus's words for this namespace: services whose pods are a shell."""
    repository, _, tag = bed.images["operator"].rpartition(":")
    return fault_bed.Bed(bed.kubectl, namespace, repository, tag, cluster.models_folder(bed.paths))


def test_a_sample_of_the_fault_corpus_is_named(cheap):
    """Each message holds the word that its fault planted; `make faults` runs them all."""
    results = corpus.run(cheap, [fault for fault in FAULTS if fault.id in SAMPLE], workers=3)
    assert [(one.fault.id, one.reason, one.message) for one in results if not one.ok] == []
    assert len(results) == len(SAMPLE)


def test_a_crash_loop_that_only_a_change_mends_is_ended(bed, namespace, cheap):
    """Three tries, then no pods; the retry annotation brings them back."""
    words = json.dumps({"reason": "BadFlag", "message": "unknown flag --x", "exitCode": 2})
    cheap.service("held", command=["sh", "-c", f"echo '{words}' > /dev/termination-log; exit 2"])
    pods_of = "serving.windlass.dev/service=held,app.kubernetes.io/component=server"

    def stopped():
        return "stopped after 2 restarts" in bed.condition(namespace, "held", "Ready").get("message", "")

    def pods():
        return bed.items(namespace, "pods", "-l", pods_of)

    bed.wait("the end of the crash loop", stopped)
    bed.wait("no pods", lambda: not pods())
    assert bed.condition(namespace, "held", "Ready")["reason"] == "BadFlag"
    bed.kubectl("-n", namespace, "annotate", "llm", "held", "serving.windlass.dev/retry=1")
    bed.wait("pods again", pods)
    cheap.remove("held")


def test_nothing_crashed_on_the_way(bed, namespace):
    pods = bed.items("windlass-system", "pods")
    restarts = sum(s["restartCount"] for pod in pods for s in pod["status"].get("containerStatuses", []))
    assert restarts == 0
    assert json.dumps([p["status"]["phase"] for p in pods]).count("Running") >= 1
