"""The closed table of every word that may stand as a reason, with its meaning and its remedy.

Conditions, `status.failure`, Events and the docs' troubleshooting page all read these rows; a reason that is not here
is a bug (`row` raises). Pure: no clock, no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass

NORMAL, WARNING = "Normal", "Warning"


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: what it means and what to do; `severity` is the type of its Event."""

    word: str
    meaning: str
    remedy: str
    severity: str = WARNING


ROWS = (
    # On the way, or there: nothing to do.
    Reason("Inspecting", "a Job reads the model's directory", "wait a few seconds", NORMAL),
    Reason("ModelFound", "the checkpoint is complete", "nothing to do", NORMAL),
    Reason("Planning", "GPUs, parallelism and context are being decided", "wait a moment", NORMAL),
    Reason("Planned", "GPUs, parallelism and context are decided", "nothing to do", NORMAL),
    Reason("Starting", "the pods start: license, model, engine", "watch status.startup", NORMAL),
    Reason("RollingOut", "pods of a new revision replace the old ones", "wait", NORMAL),
    Reason("Running", "all replicas answer", "nothing to do", NORMAL),
    Reason("PartlyReady", "some replicas answer, others not yet", "wait, or read status.failure", NORMAL),
    Reason("ScaledToZero", "spec.replicas is 0", "scale up: kubectl scale llm NAME --replicas=1", NORMAL),
    Reason("Settled", "what runs is what was asked for", "nothing to do", NORMAL),
    Reason("LicenseGranted", "the license server granted the GPUs", "nothing to do", NORMAL),
    Reason("LicenseNotRequired", "spec.license.required is false", "nothing to do", NORMAL),
    Reason("LicensePending", "no pod has asked for its license yet, or the answer is awaited", "wait", NORMAL),
    # The resource itself.
    Reason("Rejected", "the resource cannot be used as it is written", "correct the field that the message names"),
    Reason("NameTaken", "an object of this name exists and is not ours", "rename the LLMService or delete that object"),
    # The model's directory, found by the inspect Job.
    Reason("PathNotFound", "the directory does not exist on the volume", "correct the path in spec.model.source"),
    Reason("PathEscapes", "the path leads out of the volume", "name the directory itself, without '..' and links"),
    Reason("PathUnreadable", "user 10001 may not read the directory", "make it readable: chmod -R a+rX on the volume"),
    Reason(
        "ConfigMissing", "there is no config.json", "point spec.model.source at the directory that holds config.json"
    ),
    Reason("ConfigBroken", "config.json cannot be understood", "copy the model's config.json again"),
    Reason("IndexBroken", "the index of the weights cannot be understood", "copy the index file again"),
    Reason("ShardMissing", "a file that the index names is missing", "copy the missing files; the message names them"),
    Reason("ShardBroken", "a weight file is damaged or cut short", "copy the file that the message names again"),
    Reason("WeightsMissing", "there is a config.json but no weights", "copy the weights beside config.json"),
    Reason("TokenizerMissing", "there is no tokenizer", "copy the tokenizer's files beside config.json"),
    Reason("InspectFailed", "the inspect Job ended without an answer", "read its logs; it is tried again by itself"),
    # The plan.
    Reason("NoGpuNodes", "GPUs are needed and no node has any", "add a GPU node, or set spec.resources.gpus to 0"),
    Reason("GpuTypeNotFound", "no node has the asked GPU type", "correct spec.resources.gpuType or resourceGroup"),
    Reason("NotEnoughGpus", "more GPUs are asked than any node has", "lower spec.resources.gpus or add a larger node"),
    Reason(
        "DoesNotFit", "the model is larger than the largest node", "quantize, lower maxModelLen, or add a larger node"
    ),
    Reason("BadParallelism", "GPUs, tensorParallelSize and heads do not divide", "correct tensorParallelSize or gpus"),
    Reason("UnsupportedQuantization", "the method cannot run here", "choose another spec.engine.quantization"),
    Reason("ContextTooLong", "maxModelLen is above the model's own", "lower spec.engine.maxModelLen"),
    # The license.
    Reason(
        "Unlicensed", "the license server refuses these GPUs", "upload a license that names them; the pod waits for it"
    ),
    Reason("LicenseMissing", "the license server has no license in force", "upload one; the pod waits for it"),
    Reason(
        "LicenseLimitReached",
        "as many GPUs are in use as the license allows at a time",
        "stop a service, or upload a license that allows more; the pod waits for it",
    ),
    Reason("LicenseExpiring", "the license ends within 30 days", "upload a new license before it ends"),
    Reason("LicenseExpired", "the license in force has expired", "upload a new license"),
    Reason("LicenseServerUnreachable", "no license server answers", "start one, or set spec.license.addresses"),
    # The pods.
    Reason("InsufficientGpus", "no node has enough free GPUs now", "free GPUs or add a node; the pod starts by itself"),
    Reason("Unschedulable", "the scheduler finds no node", "read its words in the message; free or add resources"),
    Reason("PodsForbidden", "the API server refuses the pods", "raise the quota or change the policy that it names"),
    Reason("ImagePullFailed", "the node cannot pull the image", "correct spec.image, or give spec.image.pullSecrets"),
    Reason("VolumeMountFailed", "the node cannot mount the volume", "correct spec.model.source, or repair the volume"),
    Reason("VolumeMissing", "the PersistentVolumeClaim is missing or not bound", "create it, or correct claimName"),
    Reason("ContainerConfigError", "the container cannot be made", "correct what the message names"),
    Reason(
        "CommandNotFound", "the container's command does not exist in the image", "correct spec.command or spec.image"
    ),
    Reason("BadFlag", "the server refuses a flag or two settings that contradict", "correct spec.args or spec.engine"),
    Reason("ModelMissing", "the server does not find the model in /data/model", "correct spec.model.source"),
    Reason("OutOfMemory", "the container needed more host memory than it may take", "raise spec.resources.memory"),
    Reason(
        "GpuOutOfMemory",
        "the GPU's memory was not enough",
        "lower spec.engine.maxModelLen or gpuMemoryUtilizationPercent, or take more GPUs",
    ),
    Reason(
        "KvCacheTooSmall",
        "the memory left for the KV cache does not hold one request of the full context",
        "lower spec.engine.maxModelLen, raise gpuMemoryUtilizationPercent, or take more GPUs",
    ),
    Reason("DiskFull", "a disk of the pod is full", "free the node's disk"),
    Reason("CrashLoop", "the container ends again and again", "read status.failure.excerpt and the pod's logs"),
    Reason("EngineFailed", "the engine ended", "read status.failure.excerpt and the pod's logs"),
    Reason("ProbeFailed", "the kubelet ended a server that did not answer", "read the pod's logs of the last run"),
    Reason("Evicted", "the node took the pod's place away", "raise spec.resources.memory, or free the node"),
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
