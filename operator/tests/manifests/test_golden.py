"""Golden manifests: the YAML in tests/golden is what the API server gets. WINDLASS_GOLDEN=write rewrites it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import yaml
from windlass_api.crd.v1alpha1 import LLMService
from windlass_operator.manifests.deployment import REPLACE, SURGE, deployment
from windlass_operator.manifests.disruption import disruption_budget
from windlass_operator.manifests.inspect_job import inspect_job
from windlass_operator.manifests.peers import peer_objects
from windlass_operator.manifests.pod import PodShape
from windlass_operator.manifests.route import http_route, ingress
from windlass_operator.manifests.service import service
from windlass_testbed.cases import every_case

GOLDEN = Path(__file__).parents[1] / "golden"
OPERATOR_IMAGE = "windlass/operator:1.2"


class ServiceBuilder:
    """An LLMService in words."""

    def __init__(self) -> None:
        self.spec: dict = {
            "model": {"id": "Qwen2-7B-Instruct", "source": {"pvc": {"claimName": "models", "path": "/qwen2-7b/"}}}
        }

    def from_source(self, **source: dict) -> ServiceBuilder:
        self.spec["model"]["source"] = source
        return self

    def with_spec(self, **fields: object) -> ServiceBuilder:
        self.spec.update(fields)
        return self

    def build(self) -> LLMService:
        meta = {"name": "qwen", "namespace": "team-a", "uid": "uid-1"}
        return LLMService.model_validate({"metadata": meta, "spec": self.spec})


def a_service() -> ServiceBuilder:
    return ServiceBuilder()


ON_GPUS = PodShape(
    image="windlass/server:1.2",
    command=("windlass",),
    args=("run", "--model", "/data/model", "--tensor-parallel-size", "2"),
    cpu="2",
    memory="40Gi",
    shm="3Gi",
    gpus=2,
    weights_gib=14.2,
    node_selector=(("nvidia.com/gpu.product", "NVIDIA-L20"),),
    license_addresses=("http://licenses.example:10080",),
    license_keys="-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----\n",
)
ON_CPU = replace(ON_GPUS, gpus=0, node_selector=(), license_addresses=(), license_keys="")


def serving(builder: ServiceBuilder, shape: PodShape, rollout: str = REPLACE) -> dict:
    wanted = builder.build()
    return deployment(wanted, shape, rollout, {}, wanted.spec.replicas)


def exposed(**expose: object) -> LLMService:
    return a_service().with_spec(expose=expose).build()


def an_adapter(**model: object) -> ServiceBuilder:
    """A service whose source is an adapter, with one of another volume and a draft model beside it."""
    builder = a_service().from_source(pvc={"claimName": "models", "path": "loras/sql"})
    builder.spec["model"].update(model)
    return builder


BESIDE = {
    "adapters": [
        {"name": "inner", "path": "lora/inner"},
        {"name": "poet", "source": {"pvc": {"claimName": "loras", "path": "poet"}}},
        {"name": "news", "path": "v2", "source": {"nfs": {"server": "10.0.0.12", "path": "/loras/news"}}},
    ]
}
DRAFT = {"speculation": {"method": "draft_model", "tokens": 3, "source": {"pvc": {"claimName": "models", "path": "d"}}}}


def peer(number: int) -> dict:
    """The headless Service, or the policy."""
    owner = exposed(apiKeysSecret="keys")
    return peer_objects(owner, [deployment(owner, ON_GPUS, REPLACE, {}, 2)], heads_only=False, closed=True)[number]


CASES = {
    "peers-service": lambda: peer(0),
    "peers-policy": lambda: peer(1),
    "deployment-adapter": lambda: serving(an_adapter(), replace(ON_GPUS, base="Qwen/Qwen2-7B-Instruct")),
    "deployment-adapter-merged": lambda: serving(
        an_adapter(base={"hostPath": {"path": "/models/qwen2-7b"}}, merge=True), ON_GPUS
    ),
    "deployment-beside": lambda: serving(
        a_service().with_spec(
            model={"id": "Qwen2-7B-Instruct", "source": {"hostPath": {"path": "/models/qwen"}}, **BESIDE}, engine=DRAFT
        ),
        ON_GPUS,
    ),
    "inspect-beside": lambda: inspect_job(
        an_adapter(**BESIDE, base={"pvc": {"claimName": "models", "path": "b"}}).with_spec(engine=DRAFT).build(),
        OPERATOR_IMAGE,
        "IfNotPresent",
    ),
    "deployment-gpu": lambda: serving(a_service().with_spec(replicas=2), ON_GPUS),
    "deployment-cpu": lambda: serving(a_service().with_spec(license={"required": False}), ON_CPU, SURGE),
    "deployment-slice": lambda: serving(
        a_service(),
        replace(
            ON_GPUS,
            gpus=1,
            gpu_resource="nvidia.com/mig-3g.40gb",
            node_selector=(("nvidia.com/mig-3g.40gb.product", "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb"),),
        ),
    ),
    "deployment-all-fields": lambda: serving(
        a_service()
        .from_source(nfs={"server": "10.0.0.12", "path": "/models/qwen"})
        .with_spec(
            image={"pullPolicy": "Always", "pullSecrets": [{"name": "registry"}]},
            env=[{"name": "HOME", "value": "/elsewhere"}, {"name": "SEED", "value": "1"}],
            license={"required": True, "addresses": ["http://one.example:10080", "http://two.example:10080"]},
        ),
        ON_GPUS,
    ),
    "deployment-own-command": lambda: serving(
        a_service().from_source(hostPath={"path": "/models/qwen"}),
        replace(ON_CPU, command=("python3", "-m", "mine"), args=("--port", "8501")),
        SURGE,
    ),
    "deployment-cfs": lambda: serving(
        a_service().from_source(cfs={"server": "10.0.0.12", "path": "/models/qwen"}), ON_GPUS
    ),
    "deployment-goosefsx": lambda: serving(
        a_service().from_source(gooseFSx={"mountPath": "/goosefsx/x-c60", "path": "models/qwen"}), ON_GPUS
    ),
    "deployment-placed": lambda: serving(
        a_service().with_spec(
            scheduling={
                "nodeSelector": {"pool": "llm"},
                "tolerations": [{"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}],
                "priorityClassName": "serving",
                "topologySpread": "Zone",
            },
            cache={"pvc": "compiled"},
            deployment={"drainSeconds": 5},
        ),
        ON_GPUS,
        SURGE,
    ),
    "deployment-told": lambda: serving(
        a_service().with_spec(
            model={
                "id": "Qwen2-7B-Instruct",
                "source": {"pvc": {"claimName": "models", "path": "qwen2-7b"}},
                "adapters": [{"name": "sql", "path": "lora/sql"}, {"name": "poet", "path": "lora/poet"}],
            },
            engine={"memoryCache": False, "convTemplate": "qwen"},
            expose={"apiKeysSecret": "keys"},
            cache={"sizeLimit": "20Gi"},
            env=[
                {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
                {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "modes", "key": "mode"}}},
            ],
        ),
        ON_GPUS,
    ),
    "deployment-overlaid": lambda: serving(
        a_service().with_spec(
            podTemplate={
                "labels": {"team": "a", "serving.windlass.dev/service": "another"},
                "annotations": {"example.com/scrape": "true"},
                "spec": {
                    "runtimeClassName": "nvidia",
                    "tolerations": [{"key": "spot", "operator": "Exists"}],
                    "containers": [
                        {
                            "name": "server",
                            "resources": {"limits": {"memory": "64Gi"}},
                            "volumeMounts": [{"name": "plugins", "mountPath": "/plugins"}],
                        },
                        {"name": "watcher", "image": "watcher:1"},
                    ],
                    "volumes": [{"name": "plugins", "configMap": {"name": "plugins"}}],
                },
            }
        ),
        ON_GPUS,
    ),
    "deployment-deepspeed": lambda: serving(
        a_service().with_spec(image={"family": "deepspeed"}),
        replace(ON_GPUS, command=("windlass-deepspeed",), args=("run", "--model-path", "/data/model")),
    ),
    "budget": lambda: disruption_budget(a_service().build()),
    "ingress": lambda: ingress(
        it := exposed(
            ingress={
                "host": "qwen.example.com",
                "className": "nginx",
                "tlsSecret": "qwen-tls",
                "annotations": {"nginx.ingress.kubernetes.io/proxy-body-size": "64m"},
            }
        ),
        it.spec.expose.ingress,
    ),
    "http-route": lambda: http_route(
        it := exposed(
            gateway={
                "parentRefs": [{"name": "public", "namespace": "gateways", "sectionName": "https"}, {"name": "own"}],
                "hostnames": ["qwen.example.com"],
            },
            timeoutSeconds=600,
        ),
        it.spec.expose.gateway,
    ),
    "service": lambda: service(a_service().build()),
    "inspect-pvc": lambda: inspect_job(a_service().build(), OPERATOR_IMAGE, "IfNotPresent"),
    "inspect-nfs": lambda: inspect_job(
        a_service().from_source(nfs={"server": "10.0.0.12", "path": "/models/qwen"}).build(), OPERATOR_IMAGE, "Always"
    ),
    "inspect-host-path": lambda: inspect_job(
        a_service()
        .from_source(hostPath={"path": "/models/qwen"})
        .with_spec(resources={"resourceGroup": "team-a"}, image={"pullSecrets": [{"name": "registry"}]})
        .build(),
        OPERATOR_IMAGE,
        "Never",
    ),
}


@every_case("name", CASES)
def test_a_manifest_is_as_reviewed(name):
    """What is rendered is what the golden file says, byte for byte."""
    text = yaml.safe_dump(CASES[name](), sort_keys=False, width=120)
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        path.write_text(text)
    assert path.read_text() == text


def test_every_golden_file_has_its_case():
    assert sorted(path.stem for path in GOLDEN.glob("*.yaml")) == sorted(CASES)


@every_case("name", [name for name in CASES if name.startswith(("deployment", "inspect"))])
def test_every_pod_meets_the_restricted_standard(name):
    """Pod Security `restricted`, and a root file system that cannot be written."""
    pod = CASES[name]()["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    model = next(mount for mount in container["volumeMounts"] if mount["name"] == "model")
    assert model["readOnly"] is True


@every_case("name", CASES)
def test_every_object_is_owned_and_labelled(name):
    meta = CASES[name]()["metadata"]
    owner = meta["ownerReferences"][0]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("LLMService", "uid-1", True)
    assert meta["labels"]["app.kubernetes.io/managed-by"] == "windlass"
    assert meta["labels"]["serving.windlass.dev/service"] == "qwen"


def test_another_source_is_another_job():
    """The Job's name changes with all that it looks at or with, and with nothing else."""
    name = lambda service, image="i": inspect_job(service, image, "Always")["metadata"]["name"]  # noqa: E731
    same = a_service().with_spec(replicas=4, args=["--seed", "1"]).build()
    other = a_service().from_source(pvc={"claimName": "models", "path": "other"}).build()
    assert name(a_service().build()) == name(same)
    assert len({name(a_service().build()), name(other), name(same, "another")}) == 3


def test_the_users_variables_win():
    service = a_service().with_spec(env=[{"name": "MODEL_ID", "value": "mine"}])
    env = serving(service, ON_CPU)["spec"]["template"]["spec"]["containers"][0]["env"]
    assert [one for one in env if one["name"] == "MODEL_ID"] == [{"name": "MODEL_ID", "value": "mine"}]


def test_a_larger_model_may_start_longer():
    tries = [
        serving(a_service().with_spec(license={"required": False}), replace(ON_CPU, weights_gib=gib))["spec"][
            "template"
        ]["spec"]["containers"][0]["startupProbe"]["failureThreshold"]
        for gib in (1, 10, 140)
    ]
    assert tries == sorted(tries)
    assert tries[-1] * 10 > 60 * 60
