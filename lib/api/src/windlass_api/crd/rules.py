"""The CEL rules of the CRD, each with our own sentence, so that `kubectl apply` refuses in plain words.

They are rows: `v1alpha1.py` hangs each tuple on its field, `schema.py` writes them, and the API server runs them.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass_sizing.quantization.methods import OURS


@dataclass(frozen=True, slots=True)
class Rule:
    """One `x-kubernetes-validations` row; `message_expression` is CEL that may quote the bad value."""

    rule: str
    message: str
    message_expression: str = ""

    def to_dict(self) -> dict[str, str]:
        """The row as the CRD spells it."""
        out = {"rule": self.rule, "message": self.message}
        if self.message_expression:
            out["messageExpression"] = self.message_expression
        return out


def cel_list(words: tuple[str, ...]) -> str:
    """Return a list of texts as CEL writes it."""
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"


def _one_form(older: str, path: str) -> tuple[Rule, ...]:
    """A reference may be given as an object or, as it used to be, by its name alone."""
    return (
        Rule(
            f"!has(self.{older}Ref) || !has(self.{older}) || self.{older} == ''",
            f"{path}.{older} is the older form of {older}Ref: give {older}Ref alone",
        ),
    )


KEYS_RULES = _one_form("apiKeysSecret", "spec.expose")
TLS_RULES = _one_form("tlsSecret", "spec.expose.ingress")
CACHE_RULES = _one_form("pvc", "spec.cache")

VLLM_ONLY = {
    "pipelineParallelSize": "has(self.engine.pipelineParallelSize) && self.engine.pipelineParallelSize > 1",
    "sequenceParallelSize": "has(self.engine.sequenceParallelSize) && self.engine.sequenceParallelSize > 1",
    "gpuMemoryUtilizationPercent": "self.engine.gpuMemoryUtilizationPercent != 90",
    "enforceEager": "self.engine.enforceEager",
    "maxNumBatchedTokens": "has(self.engine.maxNumBatchedTokens)",
    "schedulerSteps": "self.engine.schedulerSteps > 1",
    "prefixCaching": "has(self.engine.prefixCaching)",
    "kvCacheDtype": "self.engine.kvCacheDtype != 'auto'",
    "trustRemoteCode": "!self.engine.trustRemoteCode",
    "ignoreEngineLimits": "self.engine.ignoreEngineLimits",
    "speculation": "has(self.engine.speculation)",
    "prefixOffload": "has(self.engine.prefixOffload) && self.engine.prefixOffload.enabled",
    "allowedMediaDomains": "has(self.engine.allowedMediaDomains) && self.engine.allowedMediaDomains.size() > 0",
}
"""Fields of spec.engine that family deepspeed has not, and when each is asked for; defaults are filled in by then."""

NAME_RULES = (
    Rule(
        "self.metadata.name.size() <= 50",
        "metadata.name must have at most 50 characters, so that the names of the pods made from it stay valid",
    ),
    Rule(
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "metadata.name must be a DNS label: lower-case letters, digits and '-', beginning with a letter, no dots",
    ),
)

SOURCE_RULES = (
    Rule(
        "[has(self.pvc), has(self.cfs), has(self.nfs), has(self.gooseFSx), has(self.hostPath)]"
        ".filter(x, x).size() == 1",
        "a source needs exactly one of pvc, cfs, nfs, gooseFSx, hostPath",
    ),
)

PATH_RULES = (
    Rule(
        "!self.split('/').exists(part, part == '..')",
        "path must not contain '..': write the directory's path without going up",
    ),
)

# A map's schema bounds its values and their number; only a rule bounds its keys.
KEY_MAX = 317  # a label's key: a DNS name of 253 characters, a slash, a name of 63
KEY_RULES = (
    Rule(
        f"self.all(key, key.size() <= {KEY_MAX})",
        f"a key must have at most {KEY_MAX} characters",
    ),
)

MODEL_ID_RULES = (
    Rule(
        "self.matches('^[A-Za-z0-9][A-Za-z0-9._/:@+-]*$')",
        "spec.model.id must begin with a letter or digit and hold only letters, digits and . _ / : @ + -",
    ),
)

HUB_NAME_RULES = (
    Rule(
        "self.matches('^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)?$') && !self.contains('..')",
        "spec.model.download.name is OWNER/NAME as the hub writes it, for example qwen/Qwen2-7B-Instruct",
    ),
)

ADAPTER_NAME_RULES = (
    Rule(
        "self.matches('^[A-Za-z0-9][A-Za-z0-9._:@+-]*$')",
        "spec.model.adapters.name must begin with a letter or digit and hold only letters, digits and . _ : @ + -",
    ),
)

ADAPTER_PLACE_RULES = (
    Rule(
        "has(self.source) || self.path != ''",
        "spec.model.adapters: give path, the adapter's directory inside the model's, or a source of its own",
    ),
)

ADAPTER_RULES = (
    Rule(
        "!self.merge || !has(self.adapters) || self.adapters.size() == 0",
        "spec.model.merge changes the weights that spec.model.adapters were trained on: leave one of them out",
    ),
    Rule(
        "!has(self.adapters) || self.adapters.all(a, self.adapters.exists_one(b, b.name == a.name))",
        "spec.model.adapters: each name may be used once; clients choose an adapter by it",
    ),
    Rule(
        "!has(self.adapters) || self.adapters.all(a, a.name != self.id)",
        "spec.model.adapters: an adapter must not have the model's own id as its name",
    ),
    Rule(
        "!has(self.adapters) || self.adapters.filter(a, a.merge).size() <= 1",
        "spec.model.adapters: only one adapter can be merged into the weights",
    ),
)

HOST_RULES = (
    Rule(
        "self.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",
        "a host is a DNS name in lower-case letters, for example llm.example.com",
    ),
)

MEDIA_DOMAIN_RULES = (
    Rule(
        "!self.matches('^(.*[.])?(0x[0-9a-f]*|[0-9]+)$')",
        "spec.engine.allowedMediaDomains holds host names, not IP addresses: media is never fetched from an address "
        "that a request names by its number",
    ),
)

OWN_SEGMENTS = tuple(
    "abort_requests adapters chat classify cohere collective_rpc detokenize docs fault_tolerance "
    "finish_weight_update generative_scoring get_world_size health inference init_weight_transfer_engine invocations "
    "is_paused is_scaling_elastic_ep is_sleeping kv_event_sources load metrics openapi.json pause ping pooling redoc "
    "release_kv_cache_memory rerank reset_encoder_cache reset_mm_cache reset_prefix_cache resume scale_elastic_ep "
    "score server_info shutdown_weight_transfer_engine sleep start_draft_weight_update start_profile "
    "start_weight_update static stop_profile tokenize tokenizer_info update_weight_version update_weights v1 v2 "
    "version wake_up weight_checker weight_info windlass".split()
)
"""How the paths of the server itself begin; a prefix that begins so would hide them. A contract test compares them."""

EXPOSED_PATH_RULES = (
    Rule(
        "self == '' || self.matches('^(/[a-z0-9]([a-z0-9._-]*[a-z0-9])?)+$')",
        "spec.expose.path begins with / and ends without it, in lower-case letters, digits and . _ -: /qwen2-7b",
    ),
    Rule(
        f"self == '' || !self.startsWith('/') || !(self.split('/')[1] in {cel_list(OWN_SEGMENTS)})",
        "spec.expose.path must not begin as a path of the server itself does",
        "'spec.expose.path must not begin with /' + self.split('/')[1] + ': the server itself has that path'",
    ),
)

VOLUME_KINDS = (*("configMap", "secret", "emptyDir", "persistentVolumeClaim", "projected", "downwardAPI", "ephemeral"),)
VOLUME_RULES = (
    Rule(
        "[" + ", ".join(f"has(self.{kind})" for kind in VOLUME_KINDS) + "].filter(x, x).size() <= 1",
        "spec.podTemplate.spec.volumes: a volume must have one kind, not several",
    ),
    Rule(
        "self.name != 'model'",
        "spec.podTemplate.spec.volumes: the name model must not be used; the operator's volume of the model has it",
    ),
)

# The two classes with this prefix are above every other pod of the cluster.
PRIORITY_RULES = (
    Rule(
        "!self.startsWith('system-')",
        "priorityClassName must not begin with system-: these classes are for the cluster's own pods",
    ),
)

# A controller that honours such an annotation puts its text into a configuration that all namespaces share.
INGRESS_ANNOTATION_RULES = (
    Rule(
        "self.all(key, !key.endsWith('snippet'))",
        "spec.expose.ingress.annotations must not hold an annotation that ends with snippet: it would change the "
        "controller's own configuration; write an Ingress of your own for that",
    ),
)

GATEWAY_RULES = (
    Rule(
        "self.all(a, self.exists_one(b, b == a))",
        "spec.expose.gateway.parentRefs: each Gateway may be named once",
    ),
)

ENV_RULES = (
    Rule(
        "!has(self.valueFrom) || self.value == ''",
        "spec.env: give a variable either value or valueFrom",
    ),
    Rule(
        "!has(self.valueFrom) || [has(self.valueFrom.secretKeyRef), has(self.valueFrom.configMapKeyRef)]"
        ".filter(x, x).size() == 1",
        "spec.env.valueFrom needs exactly one of secretKeyRef, configMapKeyRef",
    ),
)

# Without a default inside it, spec.resources may be missing as a whole.
_NO_GPUS_ASKED = "!has(self.resources) || !has(self.resources.gpus)"
SPEC_RULES = (
    Rule(
        _NO_GPUS_ASKED + " || self.deployment.mode != 'Distributed' || self.resources.gpus > 1",
        "spec.deployment.mode Distributed spreads a replica's GPUs over nodes: leave spec.resources.gpus out, or ask "
        "for at least 2",
    ),
    Rule(
        "self.deployment.mode != 'Standard' || !has(self.deployment.nodes) || self.deployment.nodes == 1",
        "spec.deployment.mode Standard uses one node a replica: leave spec.deployment.nodes out, or set mode "
        "Distributed",
    ),
    Rule(
        _NO_GPUS_ASKED + " || !has(self.deployment.nodes)"
        " || (self.resources.gpus >= self.deployment.nodes && self.resources.gpus % self.deployment.nodes == 0)",
        "spec.resources.gpus is shared evenly by spec.deployment.nodes: make it a multiple of the number of nodes",
    ),
    Rule(
        _NO_GPUS_ASKED + " || !has(self.engine.tensorParallelSize) || self.resources.gpus == 0"
        " || self.resources.gpus % self.engine.tensorParallelSize == 0",
        "spec.resources.gpus must be a multiple of spec.engine.tensorParallelSize",
    ),
    Rule(
        _NO_GPUS_ASKED + " || !has(self.resources.gpuType) || self.resources.gpus > 0",
        "spec.resources.gpuType names a GPU, and spec.resources.gpus 0 takes none: leave one of the two out",
    ),
    Rule(
        "!self.engine.lookahead.enabled || !has(self.args) || !self.args.exists(a, a == '--enable-chunked-prefill')",
        "spec.engine.lookahead does not go with --enable-chunked-prefill: leave that out of spec.args, or switch "
        "lookahead off",
    ),
    Rule(
        "self.deployment.mode != 'Distributed' || !has(self.command) || self.command.size() == 0"
        " || self.command[0] == 'run'",
        "spec.deployment.mode Distributed needs Windlass's own start command: leave spec.command out or begin it "
        "with run",
    ),
    Rule(
        f"!has(self.engine.quantization) || !(self.engine.quantization in {cel_list(OURS)})"
        " || !self.model.id.matches('(?i)(^|[-_./])(gptq|awq)($|[-_./0-9])')",
        "spec.model.id names a checkpoint that is already quantized (GPTQ or AWQ): leave spec.engine.quantization out, "
        "or serve the unquantized checkpoint",
    ),
    Rule(
        "self.image.family != 'deepspeed' || (!self.engine.lookahead.enabled && !has(self.engine.quantization)"
        " && self.deployment.mode != 'Distributed' && self.deployment.group == 'Auto'"
        " && (!has(self.deployment.nodes) || self.deployment.nodes == 1)"
        " && !has(self.model.base) && !self.model.merge"
        " && (!has(self.model.adapters) || self.model.adapters.size() == 0))",
        "spec.image.family deepspeed has neither lookahead, quantization, adapters nor replicas over several nodes "
        "(spec.deployment): leave them out, or use family vllm",
    ),
    *(
        Rule(
            f"self.image.family != 'deepspeed' || !({asked})",
            f"spec.image.family deepspeed does not have spec.engine.{name}: leave that out, or use family vllm",
        )
        for name, asked in VLLM_ONLY.items()
    ),
    Rule(
        "self.image.family != 'deepspeed' || ((!has(self.expose.apiKeysSecret) || self.expose.apiKeysSecret == '')"
        " && !has(self.expose.apiKeysSecretRef))",
        "spec.expose.apiKeysSecretRef is read by family vllm: for deepspeed set OPENAI_API_KEYS in spec.env from a "
        "Secret",
    ),
    Rule(
        "self.image.family != 'deepspeed' || !has(self.expose.path) || self.expose.path == ''",
        "spec.image.family deepspeed answers at / alone: leave spec.expose.path out, or use family vllm",
    ),
    Rule(
        "self.deployment.mode != 'Distributed' || !has(self.engine.sequenceParallelSize)"
        " || self.engine.sequenceParallelSize == 1",
        "spec.engine.sequenceParallelSize splits prompts over the GPUs of one node: leave it out, or spec.deployment",
    ),
    Rule(
        "!has(self.engine.sequenceParallelSize) || self.engine.sequenceParallelSize == 1"
        " || !has(self.model.adapters) || self.model.adapters.all(a, a.merge)",
        "spec.engine.sequenceParallelSize does not go with adapters that are served by name: merge the adapter, or "
        "leave one of them out",
    ),
    Rule(
        "self.deployment.mode != 'Distributed' || self.engine.workers == 1",
        "spec.engine.workers above 1 does not go with spec.deployment.mode Distributed: raise spec.replicas instead",
    ),
    Rule(
        "!has(self.model.source.pvc) || !has(self.cache)"
        " || ((!has(self.cache.pvc) || self.cache.pvc != self.model.source.pvc.claimName)"
        " && (!has(self.cache.pvcRef) || self.cache.pvcRef.name != self.model.source.pvc.claimName))",
        "spec.cache.pvcRef must be another claim than the model's, which serving pods mount read-only",
    ),
    Rule(
        "!has(self.model.download) || !has(self.model.source.pvc) || self.model.source.pvc.path != ''",
        "spec.model.download needs a directory of its own: set spec.model.source.pvc.path",
    ),
)
