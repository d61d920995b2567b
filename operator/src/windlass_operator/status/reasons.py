"""The closed table of every word that may stand as a reason, with its meaning and its remedy.

Conditions, `status.failure`, Events and the docs' troubleshooting page all read these rows; a reason that is not here
is a bug (`row` raises). Pure: no clock, no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass

NORMAL, WARNING = "Normal", "Warning"


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: what it means and what to do; `severity` is the type of its Event.

    A crash that is not `retryable` comes again until the spec or the model is changed; it is not tried for ever.
    """

    word: str
    meaning: str
    remedy: str
    severity: str = WARNING
    retryable: bool = True


def _final(word: str, meaning: str, remedy: str) -> Reason:
    return Reason(word, meaning, remedy, retryable=False)


ROWS = (
    # On the way, or there: nothing to do.
    Reason("Inspecting", "a Job reads the model's directory", "wait a few seconds", NORMAL),
    Reason("ModelFound", "the checkpoint is complete", "nothing to do", NORMAL),
    Reason("Planning", "GPUs, parallelism and context are being decided", "wait a moment", NORMAL),
    Reason("Planned", "GPUs, parallelism and context are decided", "kubectl windlass plan NAME says why", NORMAL),
    Reason("Starting", "the pods start: license, model, engine", "watch status.startup", NORMAL),
    Reason("RollingOut", "pods of a new revision replace the old ones", "wait", NORMAL),
    Reason("Running", "all replicas answer", "nothing to do", NORMAL),
    Reason("PartlyReady", "some replicas answer, others not yet", "wait, or read status.failure", NORMAL),
    Reason("ScaledToZero", "spec.replicas is 0", "scale up: kubectl scale llm NAME --replicas=1", NORMAL),
    Reason("Settled", "what runs is what was asked for", "nothing to do", NORMAL),
    Reason(
        "RenderedEarlier",
        "the pods are as an earlier operator rendered them; its upgrade replaced none",
        "annotate the service with serving.windlass.dev/restartedAt to take today's",
        NORMAL,
    ),
    Reason("OlderForm", "a field of the spec has a newer form", "write the form that the message names"),
    Reason("Suspended", "spec.suspend is true", "set spec.suspend to false", NORMAL),
    Reason("LicenseGranted", "the license server granted the GPUs", "nothing to do", NORMAL),
    Reason("LicenseNotRequired", "spec or chart says license.required: false", "nothing to do", NORMAL),
    Reason("LicensePending", "no pod has asked for its license yet, or the answer is awaited", "wait", NORMAL),
    Reason("NotExposed", "nothing is asked for but the Service", "nothing to do", NORMAL),
    Reason("RouteAccepted", "the way in from outside is there", "nothing to do", NORMAL),
    Reason(
        "RoutePending", "no load balancer has taken the Ingress yet", "install or name an ingress controller", NORMAL
    ),
    # The resource itself.
    Reason("Rejected", "the resource cannot be used as it is written", "correct the field that the message names"),
    Reason(
        "SpecTooLarge",
        "the resource is larger, or nested deeper, than the operator reads",
        "shorten what the message names; kubectl get llm NAME -o yaml shows it",
    ),
    Reason(
        "InternalError",
        "the operator failed at this resource alone; it tries again",
        "report it with the operator's log; a change of the spec may avoid it",
    ),
    Reason("NameTaken", "an object of this name exists and is not ours", "rename the LLMService or delete that object"),
    Reason(
        "NodePathForbidden",
        "the source, or a volume of the pods, is a directory of the nodes that this installation does not allow",
        "use a PersistentVolumeClaim, or have the chart's value nodePaths name the directory",
    ),
    # The model's directory, found by the inspect Job.
    Reason("PathNotFound", "the directory does not exist on the volume", "correct that path in spec.model"),
    Reason("PathEscapes", "the path leads out of the volume", "name the directory itself, without '..' and links"),
    Reason("PathUnreadable", "user 10001 may not read the directory", "make it readable: chmod -R a+rX on the volume"),
    Reason(
        "ConfigMissing", "there is no config.json", "point spec.model.source at the directory that holds config.json"
    ),
    _final("ConfigBroken", "config.json cannot be understood", "copy the model's config.json again"),
    _final("ConfigImplausible", "config.json holds a size that no model has", "copy the model's config.json again"),
    _final("NotRegularFile", "a file of the model is a pipe, a socket or a device", "copy the file itself"),
    _final("IndexBroken", "the index of the weights cannot be understood", "copy the index file again"),
    _final("ShardMissing", "a file that the index names is missing", "copy the missing files; the message names them"),
    _final("ShardBroken", "a weight file is damaged or cut short", "copy the file that the message names again"),
    _final("WeightsMissing", "there is a config.json but no weights", "copy the weights beside config.json"),
    Reason("TokenizerMissing", "there is no tokenizer", "copy the tokenizer's files beside config.json"),
    Reason(
        "BaseMissing",
        "the model is a LoRA adapter, and its base is not on the volume",
        "copy the base there under a path that the message names, or name its place in spec.model.base",
    ),
    Reason(
        "NotAnAdapter",
        "an adapter is asked for, and the directory holds none",
        "correct the path, or leave out the field that the message names",
    ),
    Reason(
        "AdapterUnusable",
        "the adapter cannot be served so",
        "do what the message says: merge it, train it as plain LoRA, or copy it again",
    ),
    Reason(
        "DraftUnusable",
        "what drafts does not fit the served model",
        "do what the message says: correct spec.engine.speculation's method, source, tokens or runsOn",
    ),
    Reason("InspectFailed", "the inspect Job gave no answer to believe", "read its logs; it is tried again by itself"),
    Reason("InspectOverdue", "reading the model's files takes too long", "look at the volume; it is tried again"),
    # The download that fills the volume first.
    Reason("Downloading", "a Job fetches the model from its hub", "watch status.download", NORMAL),
    Reason("Downloaded", "the model lies on the volume, verified", "nothing to do", NORMAL),
    Reason(
        "DownloadUnauthorized",
        "the hub wants a token, or refuses it",
        "correct spec.model.download.tokenSecret, and accept the model's terms on the hub",
    ),
    Reason(
        "DownloadNotFound",
        "the hub does not have the model, the revision, or any of the files",
        "correct name, revision, endpoint, include or exclude in spec.model.download",
    ),
    Reason("DownloadNoSpace", "the model does not fit on the volume", "enlarge the volume, or free space on it"),
    Reason(
        "DownloadNotWritable",
        "user 10001 may not write on the volume",
        "set spec.model.download.fsGroup: 10001, or let user 10001 write into the model's directory and the one above",
    ),
    Reason(
        "DownloadConflict",
        "the directory holds another model, or files that no download put there",
        "give spec.model.source a path of the model's own, or move the files away",
    ),
    Reason(
        "DownloadCorrupt",
        "a file comes damaged from the hub, again and again",
        "try another spec.model.download.endpoint; the message names the file",
    ),
    Reason(
        "HubUnreachable",
        "the hub does not answer, or fails",
        "check spec.model.download.endpoint, DNS, egress and proxy; it is tried again by itself",
    ),
    Reason(
        "HubUntrusted",
        "the hub's certificate is signed by nobody that the Job knows",
        "give the chart the authority's certificate as download.caBundle, or correct the endpoint",
    ),
    Reason(
        "HubAnswerBroken",
        "the endpoint answers, and not as that hub does",
        "correct spec.model.download.endpoint and hub",
    ),
    Reason("DownloadFailed", "the download Job ended without the model", "read its logs; it is tried again by itself"),
    # The plan.
    Reason("NoGpuNodes", "GPUs are needed and no node has any", "add a GPU node, or set spec.resources.gpus to 0"),
    Reason("GpuTypeNotFound", "no node has the asked GPU type", "correct spec.resources.gpuType or resourceGroup"),
    Reason("GpuWithoutKernels", "the image's engine has no kernels for the GPUs", "set spec.image.family to deepspeed"),
    Reason("NotEnoughGpus", "more GPUs are asked than any node has", "lower spec.resources.gpus or add a larger node"),
    Reason(
        "DoesNotFit", "the model is larger than the largest node", "quantize, lower maxModelLen, or add a larger node"
    ),
    Reason("BadParallelism", "GPUs, tensorParallelSize and heads do not divide", "correct tensorParallelSize or gpus"),
    Reason("UnsupportedQuantization", "the method cannot run here", "choose another spec.engine.quantization"),
    Reason("UnsupportedDtype", "the model or the GPU cannot compute in this dtype", "choose another spec.engine.dtype"),
    Reason(
        "ArchitectureNotServed",
        "the engine does not have the model's architecture",
        "serve another model, or set spec.engine.ignoreEngineLimits with an image that has it",
    ),
    Reason(
        "PlanOverdue",
        "planning takes too long for this model and this spec",
        "correct the model's config.json or spec.engine; it is tried again",
    ),
    Reason("ContextTooLong", "maxModelLen is above the model's own", "lower spec.engine.maxModelLen"),
    Reason(
        "SharedMemoryTooSmall",
        "the KV cache offloaded to host memory is larger than /dev/shm",
        "leave spec.resources.sharedMemory out, or raise it above --kv-offloading-size",
    ),
    Reason(
        "PrefixOffloadWithoutSize",
        "evicted prefixes are to be kept in host memory, and no flag says in how much",
        "set spec.engine.prefixOffload, or add --prefix-offload-mib with a size in MiB to spec.args",
    ),
    Reason(
        "PrefixOffloadTooLarge",
        "the host memory for evicted prefixes does not fit the pod, /dev/shm or the node",
        "lower spec.engine.prefixOffload.memory to what the message names",
    ),
    Reason("PrefixOffloadUnusable", "a flag or a variable excludes prefix offload", "leave out what the message names"),
    # The license.
    Reason(
        "Unlicensed",
        "the license server refuses these GPUs",
        "run `kubectl windlass license add-gpus`, or upload a license that names them; the pod waits for it",
    ),
    Reason(
        "LicenseMissing",
        "the license server has no license in force",
        "run `kubectl windlass license init`, or upload the issuer's file; the pod waits for it",
    ),
    Reason(
        "LicenseLimitReached",
        "as many GPUs are in use as the license allows at a time",
        "stop a service, or upload a license that allows more; the pod waits for it",
    ),
    Reason(
        "LicenseExpiring",
        "the license ends within 30 days",
        "upload a new license before it ends, or run `kubectl windlass license renew`",
    ),
    Reason(
        "LicenseExpired",
        "the license in force has expired",
        "upload a new one, or run `kubectl windlass license renew`",
    ),
    Reason(
        "LicenseServerUnreachable",
        "no license server answers",
        "install or start one (`kubectl windlass license status`), or set spec.license.addresses",
    ),
    # The ways in.
    Reason("RouteNotAccepted", "the Gateway does not take the route", "correct spec.expose.gateway or the Gateway"),
    Reason(
        "GatewayApiMissing",
        "the cluster has no HTTPRoute kind",
        "install the Gateway API's CRDs, or use spec.expose.ingress",
    ),
    # Pods that the API server does not let in.
    Reason("PodsForbidden", "the API server refuses the pods", "correct what its words name"),
    Reason(
        "QuotaExceeded",
        "a ResourceQuota of the namespace is used up, or wants a limit that the pods lack",
        "raise it, ask for less, or give limits to the container server in spec.podTemplate",
    ),
    Reason(
        "LimitRangeExceeded",
        "a LimitRange of the namespace forbids the size, or its default limit is below it",
        "ask for less, change the range or its default, or give limits to the container server in spec.podTemplate",
    ),
    Reason(
        "PodSecurityForbidden",
        "the namespace's Pod Security level forbids the pods",
        "label the namespace with the level that the volume needs, or use a PersistentVolumeClaim",
    ),
    Reason("PolicyDenied", "an admission policy or webhook refuses the pods", "change the policy, or what it refuses"),
    Reason("WebhookUnavailable", "an admission webhook does not answer", "repair or remove the webhook"),
    Reason("PriorityClassMissing", "the PriorityClass does not exist", "create it, or correct priorityClassName"),
    Reason("RuntimeClassMissing", "the RuntimeClass does not exist", "create it, or correct spec.podTemplate"),
    Reason("ServiceAccountMissing", "the namespace has no default ServiceAccount", "create it"),
    # Pods without a node.
    Reason("InsufficientGpus", "no node has enough free GPUs now", "free what is short or add a node; it then starts"),
    Reason("InsufficientCpu", "no node has enough free CPU", "lower spec.resources.cpu, free CPU or add a node"),
    Reason(
        "InsufficientMemory", "no node has enough free memory", "lower spec.resources.memory, free memory or add a node"
    ),
    Reason("TooManyPods", "the nodes hold as many pods as they may", "remove pods or add a node"),
    Reason("UntoleratedTaint", "the nodes are tainted", "add spec.scheduling.tolerations; see kubectl describe nodes"),
    Reason(
        "NoMatchingNode",
        "no node has the labels that the pod asks for",
        "correct spec.scheduling.nodeSelector, spec.resources or the nodes' labels",
    ),
    Reason("VolumeElsewhere", "the volume is bound to nodes that cannot take the pod", "use nodes of its zone"),
    Reason("SchedulerMissing", "no scheduler takes the pod", "start the scheduler that the pod names, or name another"),
    Reason("Unschedulable", "the scheduler finds no node", "read its words in the message; free or add resources"),
    Reason("Preempted", "a pod of a higher priority took the place", "raise the priority, or add a node"),
    # Nodes and kubelets.
    Reason("NodeLost", "the pod's node does not answer", "repair the node, or delete it; the pod comes back elsewhere"),
    Reason("NodeRefused", "the kubelet refuses the pod", "read its words; often the GPU's device plugin restarts"),
    Reason("StuckTerminating", "a pod that was told to go is still there", "look at its finalizers and its node"),
    Reason(
        "StuckCreating", "the kubelet does not get the pod's containers ready", "kubectl describe pod; then the node"
    ),
    Reason("SandboxFailed", "the node cannot make the pod's network or sandbox", "repair the node's network plugin"),
    # Images.
    Reason("ImagePullFailed", "the node cannot pull the image", "correct spec.image, or give spec.image.pullSecrets"),
    Reason("ImageNotFound", "the registry has no such image", "correct spec.image.repository or version"),
    Reason("ImageUnauthorized", "the registry refuses the pull", "give or correct spec.image.pullSecrets"),
    Reason(
        "ImageAbsent", "the image is not on the node and may not be pulled", "load it, or set spec.image.pullPolicy"
    ),
    Reason(
        "RegistryUnreachable", "the node does not reach the registry", "correct spec.image.repository or the network"
    ),
    Reason("ImageNameInvalid", "the image's name cannot be one", "correct spec.image.repository or version"),
    Reason("ImageWrongArchitecture", "the image is not for this kind of processor", "name an image of the node's kind"),
    # Volumes and what is mounted.
    Reason("VolumeMissing", "the PersistentVolumeClaim is missing or not bound", "create it, or correct claimName"),
    Reason("StorageClassMissing", "the claim's StorageClass is missing", "create it, or make the claim with another"),
    Reason("ProvisioningFailed", "the claim's volume cannot be made", "read the provisioner's words in the message"),
    Reason("VolumeMountFailed", "the node cannot mount the volume", "correct spec.model.source, or repair the volume"),
    Reason("VolumeUnreachable", "the volume's server does not answer", "start it, or correct server and network"),
    Reason("VolumeDenied", "the volume's server refuses the node", "export the directory to the nodes"),
    Reason(
        "VolumeUnsupported", "the node lacks the program that mounts this kind", "install it (nfs-common, CSI driver)"
    ),
    Reason("SecretMissing", "a Secret, or its key, does not exist", "create it; the pod starts by itself"),
    Reason("ConfigMapMissing", "a ConfigMap, or its key, does not exist", "create it; the pod starts by itself"),
    # Containers that do not start.
    Reason("ContainerConfigError", "the container cannot be made", "correct what the message names"),
    _final(
        "CommandNotFound", "the container's command does not exist in the image", "correct spec.command or spec.image"
    ),
    _final("WrongArchitecture", "the program is not for this kind of processor", "name an image of the node's kind"),
    Reason("InitContainerFailed", "an init container of spec.podTemplate ends", "correct it in spec.podTemplate"),
    Reason("SidecarFailed", "a further container of spec.podTemplate ends", "correct it in spec.podTemplate"),
    # The server's own words.
    _final("BadFlag", "the server refuses a flag or two settings that contradict", "correct spec.args or spec.engine"),
    _final("ModelMissing", "the server does not find the model in /data/model", "correct spec.model.source"),
    Reason("StartTimeout", "the engine said nothing new for too long while it started", "read the pod's logs"),
    _final(
        "FirstChatFailed",
        "the engine is up and does not answer the server's own first chat",
        "correct what the message names: the chat template, --tool-call-parser or other spec.args",
    ),
    Reason("PortTaken", "a port of the server is in use inside the pod", "change the port of the other program"),
    # A replica over several nodes.
    Reason("GroupIncomplete", "members of the replica did not come in time", "look at the pods that the message names"),
    Reason("RayFailed", "a part of the Ray cluster did not start, or ended", "read the logs of the member named"),
    Reason("MemberLost", "a member of the replica went, and the others ended with it", "read the logs of that member"),
    # The engine.
    Reason("OutOfMemory", "the container needed more host memory than it may take", "raise spec.resources.memory"),
    _final(
        "GpuOutOfMemory",
        "the GPU's memory was not enough",
        "lower spec.engine.maxModelLen or gpuMemoryUtilizationPercent, or take more GPUs",
    ),
    _final(
        "KvCacheTooSmall",
        "the memory left for the KV cache does not hold one request of the full context",
        "lower spec.engine.maxModelLen, raise gpuMemoryUtilizationPercent, or take more GPUs",
    ),
    Reason("GpuInUse", "another program holds memory of the GPU", "end it, or lower gpuMemoryUtilizationPercent"),
    Reason("GpuMissing", "the engine sees no GPU in its container", "check the node's driver and device plugin"),
    Reason("GpuFault", "the GPU or its driver failed", "look at the node's kernel log (Xid), then drain the node"),
    Reason("DriverTooOld", "the node's GPU driver is too old for the image", "update it, or name another image"),
    _final(
        "GpuTooOld", "the GPU is too old for what was asked", "choose another spec.engine.quantization, dtype or GPU"
    ),
    Reason(
        "NcclFailed",
        "GPUs cannot talk to each other",
        "check the nodes' network; NCCL_DEBUG=INFO in spec.env tells more",
    ),
    Reason("SharedMemoryFull", "the shared memory of the pod is full", "raise spec.resources.sharedMemory"),
    Reason("DiskFull", "a disk of the pod is full", "raise spec.cache.sizeLimit, or free the node's disk"),
    _final("UnsupportedArchitecture", "the engine does not know the model's architecture", "name a newer spec.image"),
    _final("RemoteCodeNeeded", "the model brings code of its own", "set spec.engine.trustRemoteCode to true"),
    _final(
        "RemoteCodeFailed", "the model's own code needs a package that the image lacks", "name an image that has it"
    ),
    _final("TokenizerBroken", "the tokenizer cannot be read", "copy the tokenizer's files again"),
    _final(
        "ChatTemplateBroken",
        "the model's chat template cannot be rendered",
        "correct the line that the message names, or name another template with --chat-template in spec.args",
    ),
    _final("AdapterBroken", "a LoRA adapter does not fit the model", "correct spec.model.adapters"),
    Reason("CrashLoop", "the container ends again and again", "read status.failure.excerpt and the pod's logs"),
    Reason("EngineFailed", "the engine ended", "read status.failure.excerpt and the pod's logs"),
    Reason("ProbeFailed", "the kubelet ended a server that did not answer", "read the pod's logs of the last run"),
    Reason("NotAnswering", "the server runs and does not answer", "read the pod's logs; the kubelet restarts it"),
    Reason(
        "EngineStalled",
        "the engine holds requests and ends no step",
        "it restarts by itself; when it comes again look at the node's kernel log (Xid), or raise "
        "WINDLASS_STALL_TIMEOUT in spec.env where a step takes longer",
    ),
    Reason("Evicted", "the node took the pod's place away", "raise spec.resources.memory, or free the node"),
    Reason("CacheLimitExceeded", "the pod wrote more than its volumes may hold", "raise spec.cache.sizeLimit"),
    Reason("RolloutStuck", "the new pods have not become ready for too long", "read status.failure and the pods' logs"),
)

TABLE = {row.word: row for row in ROWS}


def row(word: str) -> Reason:
    """The row of a reason; KeyError for a word outside the closed list."""
    return TABLE[word]


def known(word: str, otherwise: str) -> str:
    """The word when the table has it, else `otherwise`: for words that another program sent."""
    return word if word in TABLE else otherwise


def explain(word: str, message: str) -> str:
    """The message with what to do behind it."""
    text = message.strip().rstrip(".;")
    remedy = row(word).remedy
    return text if remedy in text or row(word).severity == NORMAL else f"{text}; {remedy}"
