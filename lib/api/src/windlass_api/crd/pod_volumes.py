"""The volumes that a pod template may add: what the service's namespace holds, and scratch space.

No kind reaches a node, a server of the user's choice or an identity: hostPath, nfs, iscsi, csi, image, and the
projected sources serviceAccountToken, clusterTrustBundle and podCertificate are no fields here.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from windlass_api.crd.base import WHOLE_LIST, Quantity, schema_extra
from windlass_api.crd.pod_words import (
    DnsLabel,
    FileMode,
    Labels,
    ObjectName,
    Path,
    Piece,
    QuantityMap,
    rows,
)
from windlass_api.crd.rules import VOLUME_RULES

ITEMS_MAX, SOURCES_MAX = 32, 16


class KeyToPath(Piece):
    """One entry of a Secret or ConfigMap as a file."""

    key: ObjectName = Field(description="key is the entry.")
    path: Path = Field(description="path is the file inside the volume.")
    mode: FileMode | None = Field(None, description="mode is the file's permission bits.")


class ConfigMapVolume(Piece):
    """A ConfigMap's entries as files."""

    name: ObjectName = Field(description="name is the ConfigMap.")
    items: list[KeyToPath] | None = rows(ITEMS_MAX, "items are the entries; left out: all.")
    default_mode: FileMode | None = Field(None, description="defaultMode is the files' permission bits.")
    optional: bool | None = Field(None, description="optional lets the pod start without it.")


class SecretVolume(Piece):
    """A Secret's entries as files."""

    secret_name: ObjectName = Field(description="secretName is the Secret.")
    items: list[KeyToPath] | None = rows(ITEMS_MAX, "items are the entries; left out: all.")
    default_mode: FileMode | None = Field(None, description="defaultMode is the files' permission bits.")
    optional: bool | None = Field(None, description="optional lets the pod start without it.")


class EmptyDir(Piece):
    """Scratch space that goes with the pod."""

    medium: Annotated[str, Field(max_length=32, pattern="^(Memory|HugePages(-[0-9]{1,6}(Ki|Mi|Gi))?)?$")] | None = (
        Field(None, description="medium is empty for the node's disk, Memory, or HugePages.")
    )
    size_limit: Quantity | None = Field(None, description="sizeLimit is the most that it may hold.")


class ClaimVolume(Piece):
    """A PersistentVolumeClaim of the service's namespace."""

    claim_name: ObjectName = Field(description="claimName is the claim; the model's own is mounted read-only.")
    read_only: bool | None = Field(None, description="readOnly attaches it read-only.")


class FieldRef(Piece):
    """A field of the pod itself."""

    field_path: Annotated[str, Field(min_length=1, max_length=512)] = Field(
        description="fieldPath is the field, for example metadata.name."
    )
    api_version: Literal["v1"] | None = Field(None, description="apiVersion is v1.")


class ResourceFieldRef(Piece):
    """A request or limit of a container."""

    resource: ObjectName = Field(description="resource is for example limits.memory.")
    container_name: ObjectName | None = Field(None, description="containerName is the container; volumes need it.")
    divisor: Quantity | None = Field(None, description="divisor is the unit.")


class DownwardFile(Piece):
    """One field of the pod as a file."""

    path: Path = Field(description="path is the file inside the volume.")
    field_ref: FieldRef | None = Field(None, description="fieldRef is a field of the pod.")
    resource_field_ref: ResourceFieldRef | None = Field(
        None, description="resourceFieldRef is a request or limit of a container."
    )
    mode: FileMode | None = Field(None, description="mode is the file's permission bits.")


class DownwardVolume(Piece):
    """Fields of the pod as files."""

    items: list[DownwardFile] | None = rows(ITEMS_MAX, "items are the files.")
    default_mode: FileMode | None = Field(None, description="defaultMode is the files' permission bits.")


class NamedProjection(Piece):
    """A Secret or ConfigMap among the sources of one directory."""

    name: ObjectName = Field(description="name is the Secret or ConfigMap.")
    items: list[KeyToPath] | None = rows(ITEMS_MAX, "items are the entries; left out: all.")
    optional: bool | None = Field(None, description="optional lets the pod start without it.")


class DownwardProjection(Piece):
    """Fields of the pod among the sources of one directory."""

    items: list[DownwardFile] | None = rows(ITEMS_MAX, "items are the files.")


class ProjectedSource(Piece):
    """One source of a directory that is put together; tokens and certificates are none."""

    config_map: NamedProjection | None = Field(None, description="configMap is a ConfigMap.")
    secret: NamedProjection | None = Field(None, description="secret is a Secret.")
    downward_api: DownwardProjection | None = Field(
        None, alias="downwardAPI", description="downwardAPI are fields of the pod."
    )


class ProjectedVolume(Piece):
    """Several sources as one directory."""

    sources: list[ProjectedSource] = Field(
        max_length=SOURCES_MAX, json_schema_extra=WHOLE_LIST, description="sources are put together."
    )
    default_mode: FileMode | None = Field(None, description="defaultMode is the files' permission bits.")


class ClaimResources(Piece):
    """The size of a claim."""

    requests: QuantityMap | None = Field(None, description="requests is the least, by the name storage.")
    limits: QuantityMap | None = Field(None, description="limits is the most, by the name storage.")


class ClaimSpec(Piece):
    """An empty claim; it names no volume and copies none."""

    access_modes: list[Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]] = Field(
        min_length=1, max_length=4, json_schema_extra=WHOLE_LIST, description="accessModes are how it may be mounted."
    )
    resources: ClaimResources = Field(description="resources is its size.")
    storage_class_name: ObjectName | None = Field(None, description="storageClassName is the StorageClass.")
    volume_mode: Literal["Filesystem"] | None = Field(None, description="volumeMode is Filesystem.")


class ClaimMeta(Piece):
    """The labels of a claim; annotations steer provisioners and are no field."""

    labels: Labels | None = Field(None, max_length=32, description="labels are added to the claim.")


class ClaimTemplate(Piece):
    """The claim that is made for each pod."""

    metadata: ClaimMeta | None = Field(None, description="metadata are the claim's labels.")
    spec: ClaimSpec = Field(description="spec is the claim.")


class EphemeralVolume(Piece):
    """A claim of the pod's own, which goes with it."""

    volume_claim_template: ClaimTemplate = Field(description="volumeClaimTemplate is the claim.")


class Volume(Piece):
    """A volume of one kind."""

    model_config = ConfigDict(json_schema_extra=schema_extra(*VOLUME_RULES))

    name: DnsLabel = Field(description="name is what volumeMounts name; model is the operator's own.")
    config_map: ConfigMapVolume | None = Field(None, description="configMap mounts a ConfigMap.")
    secret: SecretVolume | None = Field(None, description="secret mounts a Secret.")
    empty_dir: EmptyDir | None = Field(None, description="emptyDir is scratch space.")
    persistent_volume_claim: ClaimVolume | None = Field(None, description="persistentVolumeClaim mounts a claim.")
    projected: ProjectedVolume | None = Field(None, description="projected puts several sources together.")
    downward_api: DownwardVolume | None = Field(
        None, alias="downwardAPI", description="downwardAPI mounts fields of the pod."
    )
    ephemeral: EphemeralVolume | None = Field(None, description="ephemeral is a claim that goes with the pod.")
