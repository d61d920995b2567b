"""The CRD on a real API server: what it accepts, what it fills in, and the sentence with which it refuses."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.apiserver

PVC = {"pvc": {"claimName": "models", "path": "qwen2-7b"}}


def a_service(name: str = "qwen2-7b", **spec: object) -> dict[str, object]:
    model = {"id": "Qwen2-7B-Instruct", "source": PVC}
    return {
        "apiVersion": "serving.windlass.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": name},
        "spec": {"model": model, **spec},
    }


def from_source(**source: object) -> dict[str, object]:
    return a_service(model={"id": "m", "source": source})


def test_a_minimal_service_is_accepted_and_completed_with_defaults(apiserver, namespace):
    """Every default that the models state is filled in by the API server."""
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(a_service()))
    spec = apiserver.get("llm", "qwen2-7b", "-n", namespace)["spec"]
    assert spec == {
        "model": {"id": "Qwen2-7B-Instruct", "source": PVC, "merge": False},
        "image": {"family": "vllm", "version": "", "repository": "", "pullPolicy": "IfNotPresent"},
        "deployment": {"mode": "Auto", "group": "Auto", "rollout": "Auto", "maxRestarts": 5, "drainSeconds": 60},
        "replicas": 1,
        "suspend": False,
        "engine": {
            "lookahead": {"enabled": False},
            "prefixOffload": {"enabled": False},
            "gpuMemoryUtilizationPercent": 90,
            "enforceEager": False,
            "workers": 1,
            "schedulerSteps": 1,
            "kvCacheDtype": "auto",
            "trustRemoteCode": True,
            "convTemplate": "",
            "ignoreEngineLimits": False,
            "memoryCache": True,
        },
        "expose": {"path": "", "timeoutSeconds": 3600},
        "license": {"required": True},
        "scheduling": {"priorityClassName": "", "topologySpread": "None"},
    }


FULL = a_service(
    model={
        "id": "Qwen2-7B-Instruct",
        "source": PVC,
        "download": {
            "hub": "modelscope", "name": "qwen/Qwen2-7B-Instruct", "revision": "master",
            "endpoint": "https://hub.example", "tokenSecret": {"name": "hub", "key": "token"},
            "include": ["*.safetensors"], "exclude": ["*.bin"], "connections": 4,
        },
        "base": {"hostPath": {"path": "/data/base"}}, "merge": False,
        "adapters": [{"name": "sql", "path": "lora/sql", "merge": False},
                     {"name": "poet", "path": "", "merge": False, "source": {"hostPath": {"path": "/p"}}}],
    },
    image={"family": "vllm", "version": "0.1", "repository": "r.example/windlass/server", "pullPolicy": "Never",
           "pullSecrets": [{"name": "registry"}]},
    deployment={"mode": "Distributed", "nodes": 2, "group": "Ray", "rollout": "Surge", "maxRestarts": 3,
                "drainSeconds": 10},
    replicas=2,
    suspend=True,
    resources={"gpuType": "L20", "gpus": 2, "cpu": 4, "memory": "64Gi", "sharedMemory": "2Gi",
               "resourceGroup": "team-a"},
    engine={"quantization": "ifq_nf4", "lookahead": {"enabled": True, "speculativeTokens": 6},
            "maxModelLen": 2048, "dtype": "float16", "gpuMemoryUtilizationPercent": 95,
            "enforceEager": True, "tensorParallelSize": 2, "pipelineParallelSize": 1, "workers": 1,
            "maxConcurrency": 64, "maxNumSeqs": 32, "maxNumBatchedTokens": 4096, "schedulerSteps": 1,
            "prefixOffload": {"enabled": True, "memory": "4Gi"},
            "prefixCaching": True, "kvCacheDtype": "fp8", "trustRemoteCode": False, "convTemplate": "qwen",
            "seed": 1, "ignoreEngineLimits": True, "allowedMediaDomains": ["*.a.example"], "memoryCache": False},
    command=["run"],
    args=["--seed", "1"],
    env=[{"name": "SEED", "value": "1"},
         {"name": "TOKEN", "value": "", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}],
    expose={
        "apiKeysSecret": "keys", "path": "/qwen", "timeoutSeconds": 600,
        "ingress": {"host": "a.example", "className": "nginx", "tlsSecret": "tls", "annotations": {"a": "b"}},
        "gateway": {"parentRefs": [{"name": "public", "namespace": "gateways", "sectionName": "https"}],
                    "hostnames": ["a.example"]},
    },
    license={"required": False, "addresses": ["http://licenses.example:10080"]},
    cache={"pvc": "", "sizeLimit": "20Gi"},
    scheduling={"nodeSelector": {"pool": "llm"}, "priorityClassName": "serving", "topologySpread": "Zone",
                "tolerations": [{"key": "team", "operator": "Exists", "value": "", "effect": "NoSchedule"}]},
    podTemplate={"labels": {"a": "b"}, "annotations": {"c": "d"},
                 "spec": {"runtimeClassName": "nvidia", "dnsConfig": {"searches": ["x"]}}},
)  # fmt: skip


def test_a_full_service_is_accepted_as_it_is_written(apiserver, namespace):
    """No field of the models is pruned."""
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(FULL))
    assert apiserver.get("llm", "qwen2-7b", "-n", namespace)["spec"] == FULL["spec"]


def piece(**fields: object) -> dict[str, object]:
    return a_service(podTemplate={"spec": fields})


BAD = {
    "no source": (from_source(), "needs exactly one of pvc, cfs, nfs, gooseFSx, hostPath"),
    "two sources": (from_source(pvc={"claimName": "a"}, hostPath={"path": "/a"}),
        "exactly one of pvc, cfs, nfs, gooseFSx, hostPath"),
    "no model id": (a_service(model={"source": PVC}), "spec.model.id: Required value"),
    "no spec": ({**a_service(), "spec": None}, "spec: Required value"),
    "model id with spaces": (a_service(model={"id": "a b", "source": PVC}), "spec.model.id must begin with a letter"),
    "path that goes up": (from_source(pvc={"claimName": "a", "path": "x/../../etc"}), "path must not contain '..'"),
    "nfs path that goes up": (from_source(nfs={"server": "s", "path": "/a/.."}), "path must not contain '..'"),
    "host path not absolute": (from_source(hostPath={"path": "models"}), "spec.model.source.hostPath.path"),
    "name too long": (a_service("n" * 51), "metadata.name must have at most 50 characters"),
    "name with a dot": (a_service("qwen2.7b"), "metadata.name must be a DNS label"),
    "name that begins with a digit": (a_service("7b"), "metadata.name must be a DNS label"),
    "unknown quantization": (a_service(engine={"quantization": "int3"}),
        'spec.engine.quantization "int3" is not known; use one of fp8, ifq, ifq_nf4, smoothquant, auto, none'),
    "nf4 in bfloat16": (a_service(engine={"quantization": "ifq_nf4", "dtype": "bfloat16"}),
        "ifq_nf4 runs in float16 only"),
    "a method that the engine has as a plug-in": (a_service(engine={"quantization": "bitsandbytes"}),
        'spec.engine.quantization "bitsandbytes" is not known'),
    "negative gpus": (a_service(resources={"gpus": -1}), "should be greater than or equal to 0"),
    "too many gpus": (a_service(resources={"gpus": 1025}), "should be less than or equal to 1024"),
    "gpus as text": (a_service(resources={"gpus": "two"}), "must be of type integer"),
    "memory that is no quantity": (a_service(resources={"memory": "lots"}), "spec.resources.memory"),
    "two steps with lookahead": (a_service(engine={"lookahead": {"enabled": True}, "schedulerSteps": 8}),
        "spec.engine.lookahead does not go with schedulerSteps above 1"),
    "drafts as long as the context": (
        a_service(engine={"lookahead": {"enabled": True, "speculativeTokens": 8}, "maxModelLen": 8}),
        "speculativeTokens must be smaller than spec.engine.maxModelLen"),
    "fp8 on a GPTQ checkpoint": (
        a_service(engine={"quantization": "fp8"}, model={"id": "Qwen-7B-Chat-GPTQ-Int4", "source": PVC}),
        "names a checkpoint that is already quantized (GPTQ or AWQ)"),
    "a group without cards": (a_service(deployment={"mode": "Distributed"}, resources={"gpus": 0}),
        "spreads a replica's GPUs over nodes"),
    "a kind of card without cards": (a_service(resources={"gpus": 0, "gpuType": "L20"}),
        "spec.resources.gpuType names a GPU, and spec.resources.gpus 0 takes none"),
    "one node of two": (a_service(deployment={"mode": "Standard", "nodes": 2}), "Standard uses one node a replica"),
    "cards that nodes cannot share": (a_service(deployment={"nodes": 2}, resources={"gpus": 3}),
        "make it a multiple of the number of nodes"),
    "cards that ranks cannot share": (a_service(engine={"tensorParallelSize": 2}, resources={"gpus": 3}),
        "must be a multiple of spec.engine.tensorParallelSize"),
    "a group with a command": (a_service(deployment={"mode": "Distributed"}, command=["sh"]),
        "Distributed needs Windlass's own start command"),
    "a group with workers": (a_service(deployment={"mode": "Distributed"}, engine={"workers": 2}),
        "workers above 1 does not go with"),
    "split prompts and drafts": (
        a_service(engine={"sequenceParallelSize": 2, "lookahead": {"enabled": True}}),
        "sequenceParallelSize does not go with lookahead"),
    "split prompts and a draft model": (
        a_service(engine={"sequenceParallelSize": 2, "speculation": {"source": PVC}}),
        "sequenceParallelSize does not go with speculation"),
    "split prompts and workers": (a_service(engine={"sequenceParallelSize": 2, "workers": 2}),
        "sequenceParallelSize does not go with workers above 1"),
    "split prompts and evicted prefixes": (
        a_service(engine={"sequenceParallelSize": 2, "prefixOffload": {"enabled": True}}),
        "sequenceParallelSize does not go with prefixOffload"),
    "split prompts over nodes": (a_service(deployment={"mode": "Distributed"}, engine={"sequenceParallelSize": 2}),
        "splits prompts over the GPUs of one node"),
    "split prompts and an adapter": (
        a_service(model={"id": "m", "source": PVC, "adapters": [{"name": "a", "path": "x"}]},
                  engine={"sequenceParallelSize": 2}),
        "does not go with adapters that are served by name"),
    "an adapter twice": (
        a_service(model={"id": "m", "source": PVC,
                         "adapters": [{"name": "a", "path": "x"}, {"name": "a", "path": "y"}]}),
        "spec.model.adapters: each name may be used once"),
    "an adapter named as the model": (
        a_service(model={"id": "m", "source": PVC, "adapters": [{"name": "m", "path": "x"}]}),
        "must not have the model's own id"),
    "an adapter without a place": (a_service(model={"id": "m", "source": PVC, "adapters": [{"name": "a"}]}),
        "give path, the adapter's directory inside the model's, or a source of its own"),
    "an adapter's empty source": (
        a_service(model={"id": "m", "source": PVC, "adapters": [{"name": "a", "source": {}}]}),
        "a source needs exactly one of pvc, cfs, nfs, gooseFSx, hostPath"),
    "a base of two kinds": (
        a_service(model={"id": "m", "source": PVC, "base": {**PVC, "hostPath": {"path": "/a"}}}),
        "a source needs exactly one of pvc, cfs, nfs, gooseFSx, hostPath"),
    "a merge beside adapters": (
        a_service(model={"id": "m", "source": PVC, "merge": True, "adapters": [{"name": "a", "path": "x"}]}),
        "spec.model.merge changes the weights that spec.model.adapters were trained on"),
    "a base for deepspeed": (
        a_service(image={"family": "deepspeed"}, model={"id": "m", "source": PVC, "base": PVC}),
        "spec.image.family deepspeed has neither lookahead"),
    "an unknown way to draft": (a_service(engine={"speculation": {"method": "hydra", "source": PVC}}),
        'spec.engine.speculation.method "hydra" is not known: use one of draft_model, eagle, eagle3, medusa;'),
    "drafts of nothing": (a_service(engine={"speculation": {"method": "draft_model"}}),
        "spec.engine.speculation.source: Required value"),
    "Medusa beside lookahead": (
        a_service(engine={"speculation": {"method": "medusa", "source": PVC}, "lookahead": {"enabled": True}}),
        "spec.engine.speculation.method medusa does not go with lookahead"),
    "a head on the host's cores": (
        a_service(engine={"speculation": {"method": "eagle", "runsOn": "cpu", "source": PVC}}),
        "spec.engine.speculation.runsOn cpu takes method draft_model"),
    "drafts on a third place": (
        a_service(engine={"speculation": {"runsOn": "tpu", "source": PVC}}),
        'spec.engine.speculation.runsOn: Unsupported value: "tpu": supported values: "gpu", "cpu"'),
    "two numbers of drafts": (
        a_service(engine={"speculation": {"source": PVC}, "lookahead": {"enabled": True, "speculativeTokens": 4}}),
        "spec.engine.lookahead.speculativeTokens does not go with speculation"),
    "deepspeed with a draft model": (a_service(image={"family": "deepspeed"}, engine={"speculation": {"source": PVC}}),
        "spec.image.family deepspeed does not have spec.engine.speculation"),
    "two merged adapters": (
        a_service(model={"id": "m", "source": PVC, "adapters": [{"name": "a", "path": "x", "merge": True},
                                                                {"name": "b", "path": "y", "merge": True}]}),
        "only one adapter can be merged"),
    "deepspeed with lookahead": (a_service(image={"family": "deepspeed"}, engine={"lookahead": {"enabled": True}}),
        "spec.image.family deepspeed has neither lookahead"),
    "deepspeed with fields of vLLM's": (
        a_service(image={"family": "deepspeed"}, engine={"workers": 2, "kvCacheDtype": "fp8"}),
        "spec.image.family deepspeed does not have spec.engine.kvCacheDtype: leave that out"),
    "deepspeed on two nodes": (a_service(image={"family": "deepspeed"}, deployment={"nodes": 2}),
        "nor replicas over several nodes"),
    "keys for deepspeed": (a_service(image={"family": "deepspeed"}, expose={"apiKeysSecret": "keys"}),
        "spec.expose.apiKeysSecretRef is read by family vllm"),
    "keys as an object for deepspeed": (a_service(image={"family": "deepspeed"},
        expose={"apiKeysSecretRef": {"name": "keys"}}), "spec.expose.apiKeysSecretRef is read by family vllm"),
    "keys in both forms": (a_service(expose={"apiKeysSecret": "keys", "apiKeysSecretRef": {"name": "keys"}}),
        "spec.expose.apiKeysSecret is the older form of apiKeysSecretRef: give apiKeysSecretRef alone"),
    "certificate in both forms": (a_service(expose={"ingress": {"host": "a.example", "tlsSecret": "tls",
        "tlsSecretRef": {"name": "tls"}}}), "tlsSecret is the older form of tlsSecretRef: give tlsSecretRef alone"),
    "cache in both forms": (a_service(cache={"pvc": "a", "pvcRef": {"name": "a"}}),
        "spec.cache.pvc is the older form of pvcRef: give pvcRef alone"),
    "cache on the model's claim, as an object": (a_service(cache={"pvcRef": {"name": "models"}}),
        "spec.cache.pvcRef must be another claim than the model's"),
    "token without a key": (a_service(model={"id": "m", "source": PVC, "download": {
        "hub": "modelscope", "name": "a/b", "tokenSecret": {"name": "hub"}}}),
        "spec.model.download.tokenSecret.key: Required value"),
    "variable's Secret without a key": (
        a_service(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]),
        "spec.env[0].valueFrom.secretKeyRef.key: Required value"),
    "variable's ConfigMap without a key": (
        a_service(env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "s"}}}]),
        "spec.env[0].valueFrom.configMapKeyRef.key: Required value"),
    "a download into the volume's root": (
        a_service(model={"id": "m", "source": {"pvc": {"claimName": "c"}},
                         "download": {"hub": "modelscope", "name": "a/b"}}),
        "spec.model.download needs a directory of its own"),
    "a hub's name that goes up": (
        a_service(model={"id": "m", "source": PVC, "download": {"hub": "modelscope", "name": "../b"}}),
        "is OWNER/NAME as the hub writes it"),
    "an endpoint with a password": (
        a_service(model={"id": "m", "source": PVC,
                         "download": {"hub": "modelscope", "name": "a/b", "endpoint": "https://u:p@hub.example"}}),
        "spec.model.download.endpoint"),
    "a variable from two places": (
        a_service(env=[{"name": "A", "value": "1", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
        "either value or valueFrom"),
    "a variable from nowhere": (a_service(env=[{"name": "A", "valueFrom": {}}]), "exactly one of secretKeyRef"),
    "a host with a path": (a_service(expose={"ingress": {"host": "a.example/x"}}), "a host is a DNS name"),
    "a prefix with a slash at its end": (a_service(expose={"path": "/qwen/"}), "spec.expose.path begins with /"),
    "a prefix that goes up": (a_service(expose={"path": "/a/../v1"}), "spec.expose.path begins with /"),
    "a prefix that hides the API": (a_service(expose={"path": "/v1/qwen"}), "must not begin with /v1"),
    "a prefix for deepspeed": (a_service(image={"family": "deepspeed"}, expose={"path": "/qwen"}),
        "leave spec.expose.path out"),
    "prefixes kept of no cache": (a_service(engine={"prefixOffload": {"enabled": True}, "prefixCaching": False}),
        "spec.engine.prefixOffload keeps what the prefix cache evicts"),
    "prefixes kept in two sizes": (a_service(engine={"prefixOffload": {"memory": "4Gi", "memoryPercent": 30}}),
        "spec.engine.prefixOffload takes memory or memoryPercent"),
    "prefixes kept in all memory": (a_service(engine={"prefixOffload": {"memoryPercent": 81}}),
        "spec.engine.prefixOffload.memoryPercent"),
    "deepspeed with prefixes kept": (
        a_service(image={"family": "deepspeed"}, engine={"prefixOffload": {"enabled": True}}),
        "spec.image.family deepspeed does not have spec.engine.prefixOffload"),
    "media from an address": (a_service(engine={"allowedMediaDomains": ["169.254.169.254"]}),
        "holds host names, not IP addresses"),
    "media from a URL": (a_service(engine={"allowedMediaDomains": ["https://a.example"]}), "a host is a DNS name"),
    "media for deepspeed": (
        a_service(image={"family": "deepspeed"}, engine={"allowedMediaDomains": ["a.example"]}),
        "deepspeed does not have spec.engine.allowedMediaDomains"),
    "configuration for the controller": (
        a_service(expose={"ingress": {"host": "a.example", "annotations": {
            "nginx.ingress.kubernetes.io/server-snippet": "return 200;"}}}),
        "must not hold an annotation that ends with snippet"),
    "lookahead with prompts in pieces": (
        a_service(engine={"lookahead": {"enabled": True}}, args=["--seed", "1", "--enable-chunked-prefill"]),
        "spec.engine.lookahead does not go with --enable-chunked-prefill"),
    "no gateway": (a_service(expose={"gateway": {"parentRefs": []}}), "spec.expose.gateway.parentRefs"),
    "utilization above the card": (a_service(engine={"gpuMemoryUtilizationPercent": 120}), "less than or equal to 99"),
    "context of zero": (a_service(engine={"maxModelLen": 0}), "should be greater than or equal to 1"),
    "unknown dtype": (a_service(engine={"dtype": "int8"}), 'supported values: "auto", "float16", "bfloat16"'),
    "negative replicas": (a_service(replicas=-1), "should be greater than or equal to 0"),
    "a variable twice": (a_service(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]), "spec.env[1]"),
    "a variable with a bad name": (a_service(env=[{"name": "1A"}]), "spec.env[0].name"),
    "license address without a scheme": (a_service(license={"addresses": ["licenses:10080"]}),
        "spec.license.addresses[0]"),
    "a probe of another address": (
        piece(containers=[{"name": "server", "livenessProbe": {"httpGet": {"host": "10.0.0.1", "port": 80}}}]),
        'unknown field "spec.podTemplate.spec.containers[0].livenessProbe.httpGet.host"'),
    "a token of another audience": (
        piece(volumes=[{"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "a"}}]}}]),
        'unknown field "spec.podTemplate.spec.volumes[0].projected.sources[0].serviceAccountToken"'),
    "a privilege": (piece(hostNetwork=True), 'unknown field "spec.podTemplate.spec.hostNetwork"'),
    "a volume of two kinds": (piece(volumes=[{"name": "a", "emptyDir": {}, "secret": {"secretName": "a"}}]),
        "a volume must have one kind, not several"),
    "the model's volume": (piece(volumes=[{"name": "model", "emptyDir": {}}]), "the name model must not be used"),
    "a class above all others": (piece(priorityClassName="system-node-critical"), "must not begin with system-"),
    "a cache on the model": (a_service(cache={"pvc": "models"}), "must be another claim than the model's"),
    "an annotation with a line end": (
        a_service(expose={"ingress": {"host": "a.example", "annotations": {"a": "b\nc"}}}), "should match"),
    "a spec of 200,000 characters": (a_service(args=["a" * 10_000] * 20), "must have at most 131072 characters"),
    "unknown family": (a_service(image={"family": "triton"}), 'supported values: "vllm"'),
    "unknown field": (a_service(replica=2), 'unknown field "spec.replica"'),
}  # fmt: skip


# Parts that a rule looks into may be missing as a whole.
SPARSE = {
    "a group without resources": a_service(deployment={"mode": "Distributed"}),
    "nodes without resources": a_service(deployment={"nodes": 2}),
    "tensor parallelism without resources": a_service(engine={"tensorParallelSize": 2}),
}


@pytest.mark.parametrize("service", SPARSE.values(), ids=SPARSE.keys())
def test_a_rule_does_not_need_what_is_left_out(apiserver, namespace, service):
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(service))


@pytest.mark.parametrize(("service", "words"), BAD.values(), ids=BAD.keys())
def test_a_bad_service_is_refused_with_the_right_words(apiserver, namespace, service, words):
    """`kubectl apply` itself says what is wrong; nothing is stored."""
    done = apiserver.apply(service, "-n", namespace, "--dry-run=server", "--validate=strict")
    assert done.returncode != 0
    assert words in done.stderr


def test_server_side_apply_keeps_two_managers_apart(apiserver, namespace):
    """A console that owns `replicas` and a user who owns `env` do not overwrite each other."""
    base = json.dumps(a_service(env=[{"name": "A", "value": "1"}]))
    apiserver.kubectl("apply", "-n", namespace, "--server-side", "--field-manager=user", "-f", "-", stdin=base)
    other = {**a_service(), "spec": {"env": [{"name": "B", "value": "2"}]}}
    text = json.dumps(other)
    apiserver.kubectl("apply", "-n", namespace, "--server-side", "--field-manager=console", "-f", "-", stdin=text)
    spec = apiserver.get("llm", "qwen2-7b", "-n", namespace)["spec"]
    assert spec["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    clash = {**other, "spec": {"model": {"id": "other"}}}
    done = apiserver.apply(clash, "-n", namespace, "--server-side", "--field-manager=console")
    assert done.returncode != 0
    assert 'conflict with "user"' in done.stderr


def test_the_status_is_a_subresource_of_its_own(apiserver, namespace):
    """A write to the resource leaves the status alone, and a write to the status the spec; the columns show both."""
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(a_service()))
    condition = {
        "type": "Ready", "status": "False", "reason": "Starting", "message": "the engine loads",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    figures = {"gpus": 4, "tp": 4, "maxModelLen": 8192}
    status = {"ready": "0/1", "updatedReplicas": 1, "conditions": [condition], "plan": figures, "inForce": figures}
    patch = json.dumps({"status": status, "spec": {"replicas": 5}})
    apiserver.kubectl("patch", "llm", "qwen2-7b", "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)
    found = apiserver.get("llm", "qwen2-7b", "-n", namespace)
    assert (1, status) == (found["spec"]["replicas"], found["status"])
    header, row = apiserver.kubectl("get", "llm", "-n", namespace).stdout.splitlines()
    assert header.split() == ["NAME", "MODEL", "READY", "UP-TO-DATE", "STATUS", "GPUS", "TP", "AGE"]
    assert row.split()[:7] == ["qwen2-7b", "Qwen2-7B-Instruct", "0/1", "1", "Starting", "4", "4"]
    wide = apiserver.kubectl("get", "llm", "-n", namespace, "-o", "wide").stdout
    assert wide.splitlines()[0].split()[8:] == ["CONTEXT", "QUANT", "ADDRESS", "MESSAGE"]
    assert "the engine loads" in wide


def test_scale_works_through_its_subresource(apiserver, namespace):
    """`kubectl scale` writes spec.replicas; an autoscaler reads the status and the selector."""
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(a_service()))
    apiserver.kubectl("scale", "llm/qwen2-7b", "-n", namespace, "--replicas=3")
    patch = json.dumps({"status": {"replicas": 2, "selector": "serving.windlass.dev/service=qwen2-7b"}})
    apiserver.kubectl("patch", "llm", "qwen2-7b", "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)
    path = f"/apis/serving.windlass.dev/v1alpha1/namespaces/{namespace}/llmservices/qwen2-7b/scale"
    scale = json.loads(apiserver.kubectl("get", "--raw", path).stdout)
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 2, "selector": "serving.windlass.dev/service=qwen2-7b"}
