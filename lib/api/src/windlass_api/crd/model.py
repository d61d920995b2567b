"""`spec.model`: which model is served, where its checkpoint lies, and how it gets there."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from windlass_api.crd.base import WHOLE_LIST, AbsolutePath, ApiModel, SecretKey, VolumePath, schema_extra
from windlass_api.crd.rules import (
    ADAPTER_NAME_RULES,
    ADAPTER_PLACE_RULES,
    ADAPTER_RULES,
    HUB_NAME_RULES,
    MODEL_ID_RULES,
    SOURCE_RULES,
)

GROUP_MAX = 2**31 - 1


class PvcSource(ApiModel):
    """A directory inside a PersistentVolumeClaim of the service's namespace."""

    claim_name: str = Field(
        min_length=1, max_length=253, description="claimName is the PersistentVolumeClaim in the service's namespace."
    )
    path: VolumePath = Field(
        "",
        description="path is the checkpoint's directory inside the volume; empty means the volume's root.",
    )


class NfsSource(ApiModel):
    """A directory exported by an NFS server."""

    server: str = Field(min_length=1, max_length=253, description="server is the NFS server's host name or address.")
    path: AbsolutePath = Field(description="path is the exported directory that holds the checkpoint; absolute.")


class CfsSource(ApiModel):
    """A directory of a Cloud File Storage, which speaks NFS."""

    server: str = Field(min_length=1, max_length=253, description="server is the file system's mount point address.")
    path: AbsolutePath = Field(description="path is the directory that holds the checkpoint; absolute.")


class GooseFSxSource(ApiModel):
    """A directory of a GooseFSx file system that every node has mounted."""

    mount_path: AbsolutePath = Field(
        description="mountPath is where the nodes have mounted the file system, for example /goosefsx/x-c60-abc."
    )
    path: VolumePath = Field(
        "", description="path is the checkpoint's directory inside the file system; empty means its root."
    )


class HostPathSource(ApiModel):
    """A directory on each node; for tests and for nodes that carry the models themselves."""

    path: AbsolutePath = Field(description="path is the checkpoint's directory on the node; absolute.")


class ModelSource(ApiModel):
    """Where the checkpoint lies: exactly one kind of volume."""

    model_config = ConfigDict(json_schema_extra=schema_extra(*SOURCE_RULES))

    pvc: PvcSource | None = Field(None, description="pvc reads the model from a PersistentVolumeClaim.")
    cfs: CfsSource | None = Field(None, description="cfs reads the model from a Cloud File Storage.")
    nfs: NfsSource | None = Field(None, description="nfs reads the model from an NFS export.")
    goose_f_sx: GooseFSxSource | None = Field(
        None, alias="gooseFSx", description="gooseFSx reads the model from a GooseFSx mount of the node."
    )
    host_path: HostPathSource | None = Field(None, description="hostPath reads the model from a directory of the node.")


Glob = Annotated[str, Field(min_length=1, max_length=256)]


def _missing(value: object) -> bool:
    """Fields that older resources lack are left out of what a plan's digest is made of: an update moves no service."""
    return not value


class DownloadSpec(ApiModel):
    """From which hub the source is filled before the model is read."""

    hub: Literal["modelscope", "huggingface"] = Field(description="hub is modelscope or huggingface.")
    name: str = Field(
        min_length=1,
        max_length=256,
        json_schema_extra=schema_extra(*HUB_NAME_RULES),
        description="name is the model's name on the hub, for example qwen/Qwen2-7B-Instruct.",
    )
    revision: str = Field(
        "",
        max_length=128,
        pattern=r"^[A-Za-z0-9._/-]*$",
        description="revision is a branch, tag or commit; empty means the hub's own default.",
    )
    endpoint: str = Field(
        "",
        max_length=512,
        pattern=r"^(https?://[^/@\s]+(/\S*)?)?$",
        description="endpoint is the base URL of a mirror or an air-gapped hub; empty means the public one.",
    )
    token_secret: SecretKey | None = Field(
        None, description="tokenSecret holds the access token of private and gated models."
    )
    include: list[Glob] = Field(
        default_factory=list,
        max_length=32,
        json_schema_extra=WHOLE_LIST,
        description="include are patterns of the files to fetch; empty means all.",
    )
    exclude: list[Glob] = Field(
        default_factory=list,
        max_length=32,
        json_schema_extra=WHOLE_LIST,
        description="exclude are patterns of files to leave out; it wins over include.",
    )
    connections: int = Field(8, ge=1, le=64, description="connections is how many parts are fetched at a time.")
    fs_group: int | None = Field(
        None,
        ge=1,
        le=GROUP_MAX,
        exclude_if=_missing,
        description="fsGroup is the group that a claim's volume is given to before the download writes; left out: "
        "owners stay. A new volume of block storage needs it, since only root may write there.",
    )


class AdapterSpec(ApiModel):
    """One LoRA adapter, inside the model's directory or on a volume of its own."""

    model_config = ConfigDict(json_schema_extra=schema_extra(*ADAPTER_PLACE_RULES))

    name: str = Field(
        min_length=1,
        max_length=200,
        json_schema_extra=schema_extra(*ADAPTER_NAME_RULES),
        description="name is what clients send in `model` to get this adapter.",
    )
    path: VolumePath = Field(
        "",
        description="path is the adapter's directory inside the model's, or inside its own source; needed without one.",
    )
    source: ModelSource | None = Field(
        None, exclude_if=_missing, description="source is the adapter's own volume; left out: the model's."
    )
    merge: bool = Field(
        False, description="merge adds the adapter into the weights at the start; then only the merged model is served."
    )


class ModelSpec(ApiModel):
    """Which model is served, and from where."""

    model_config = ConfigDict(json_schema_extra=schema_extra(*ADAPTER_RULES))

    id: str = Field(
        min_length=1,
        max_length=200,
        json_schema_extra=schema_extra(*MODEL_ID_RULES),
        description="id is the model's name, as clients send it in `model` and as chat templates are matched.",
    )
    source: ModelSource = Field(description="source is the volume that holds the model, or a LoRA adapter.")
    base: ModelSource | None = Field(
        None,
        exclude_if=_missing,
        description="base is the volume of the base model where source holds an adapter; left out: source's volume.",
    )
    merge: bool = Field(
        False,
        exclude_if=_missing,
        description="merge adds the adapter that source holds into its base's weights at the start.",
    )
    download: DownloadSpec | None = Field(
        None, description="download fills the source from a hub before the model is read; left out: it is there."
    )
    adapters: list[AdapterSpec] = Field(
        default_factory=list,
        max_length=32,
        json_schema_extra=WHOLE_LIST,
        description="adapters are the LoRA adapters served beside the model, by name.",
    )
