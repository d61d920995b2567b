"""The containers that a pod template may add or change, without a word of privileges.

A probe or a hook reaches the pod's own address alone: with a `host` the kubelet would call addresses that only nodes
can reach. Host ports, devices and security contexts are no fields here.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from windlass_api.crd.pod_volumes import FieldRef, ResourceFieldRef
from windlass_api.crd.pod_words import (
    DnsLabel,
    ObjectName,
    Path,
    Piece,
    PortRef,
    QuantityMap,
    Seconds,
    Word,
    rows,
)

WORDS_MAX, VARIABLES_MAX, MOUNTS_MAX, PORTS_MAX, HEADERS_MAX = 64, 128, 32, 16, 16
VARIABLE = r"^[-._a-zA-Z][-._a-zA-Z0-9]*$"
Tries = Annotated[int, Field(ge=1, le=100000)]
PortNumber = Annotated[int, Field(ge=1, le=65535)]


class KeyRef(Piece):
    """One entry of a Secret or ConfigMap."""

    name: ObjectName = Field(description="name is the Secret or ConfigMap.")
    key: ObjectName = Field(description="key is the entry.")
    optional: bool | None = Field(None, description="optional lets the pod start without it.")


class EnvSource(Piece):
    """Where a variable's text comes from."""

    secret_key_ref: KeyRef | None = Field(None, description="secretKeyRef is an entry of a Secret.")
    config_map_key_ref: KeyRef | None = Field(None, description="configMapKeyRef is an entry of a ConfigMap.")
    field_ref: FieldRef | None = Field(None, description="fieldRef is a field of the pod.")
    resource_field_ref: ResourceFieldRef | None = Field(
        None, description="resourceFieldRef is a request or limit of a container."
    )


class ContainerVariable(Piece):
    """An environment variable."""

    name: Annotated[str, Field(min_length=1, max_length=256, pattern=VARIABLE)] = Field(
        description="name is the variable's name."
    )
    value: Annotated[str, Field(max_length=32768)] | None = Field(None, description="value is the variable's text.")
    value_from: EnvSource | None = Field(None, description="valueFrom takes the text from somewhere else.")


class WholeRef(Piece):
    """A whole Secret or ConfigMap."""

    name: ObjectName = Field(description="name is the Secret or ConfigMap.")
    optional: bool | None = Field(None, description="optional lets the pod start without it.")


class EnvFrom(Piece):
    """Variables from all entries of an object."""

    prefix: Annotated[str, Field(max_length=256)] | None = Field(
        None, description="prefix stands before each variable's name."
    )
    secret_ref: WholeRef | None = Field(None, description="secretRef is a Secret.")
    config_map_ref: WholeRef | None = Field(None, description="configMapRef is a ConfigMap.")


class ContainerPort(Piece):
    """A port of the pod's own address."""

    container_port: PortNumber = Field(description="containerPort is the port.")
    name: Annotated[str, Field(min_length=1, max_length=15)] | None = Field(
        None, description="name is what Services and probes call it."
    )
    protocol: Literal["TCP", "UDP", "SCTP"] | None = Field(None, description="protocol is TCP, UDP or SCTP.")


class UsedClaim(Piece):
    """A device claim of the pod that a container uses."""

    name: ObjectName = Field(description="name is one of resourceClaims.")
    request: ObjectName | None = Field(None, description="request is one of the claim's requests.")


class Resources(Piece):
    """What a container asks for and may take."""

    requests: QuantityMap | None = Field(None, description="requests are what the scheduler keeps for it.")
    limits: QuantityMap | None = Field(None, description="limits are the most that it may take.")
    claims: list[UsedClaim] | None = rows(PORTS_MAX, "claims are devices that it uses.", key="name")


class VolumeMount(Piece):
    """A volume's place in a container; the model's volume is read-only wherever it is mounted."""

    name: DnsLabel = Field(description="name is the volume.")
    mount_path: Path = Field(description="mountPath is the directory in the container.")
    sub_path: Path | None = Field(None, description="subPath is a directory inside the volume.")
    sub_path_expr: Path | None = Field(None, description="subPathExpr is the same with variables.")
    read_only: bool | None = Field(None, description="readOnly forbids writing.")
    recursive_read_only: Literal["Disabled", "IfPossible", "Enabled"] | None = Field(
        None, description="recursiveReadOnly forbids writing to mounts below, too."
    )
    mount_propagation: Literal["None", "HostToContainer"] | None = Field(
        None, description="mountPropagation follows mounts of the node; never the other way."
    )


class Exec(Piece):
    """A command in the container."""

    command: list[Word] | None = rows(WORDS_MAX, "command is run without a shell; exit code 0 is success.")


class Header(Piece):
    """One header of a request."""

    name: ObjectName = Field(description="name is the header.")
    value: Annotated[str, Field(max_length=1024)] = Field(description="value is its text.")


class HttpGet(Piece):
    """A request to the pod's own address."""

    port: PortRef = Field(description="port is a number or one of the container's ports.")
    path: Path | None = Field(None, description="path is what is asked for.")
    scheme: Literal["HTTP", "HTTPS"] | None = Field(None, description="scheme is HTTP or HTTPS.")
    http_headers: list[Header] | None = rows(HEADERS_MAX, "httpHeaders are headers of the request.")


class TcpSocket(Piece):
    """A connection to the pod's own address."""

    port: PortRef = Field(description="port is a number or one of the container's ports.")


class Grpc(Piece):
    """A gRPC health check at the pod's own address."""

    port: PortNumber = Field(description="port is the port.")
    service: ObjectName | None = Field(None, description="service is what is asked about.")


class Sleep(Piece):
    """A pause."""

    seconds: Seconds = Field(description="seconds is how long.")


class Probe(Piece):
    """How the kubelet asks a container whether it is well."""

    exec_: Exec | None = Field(None, alias="exec", description="exec runs a command.")
    http_get: HttpGet | None = Field(None, description="httpGet asks the pod's own address.")
    tcp_socket: TcpSocket | None = Field(None, description="tcpSocket connects to the pod's own address.")
    grpc: Grpc | None = Field(None, description="grpc asks the pod's own address.")
    initial_delay_seconds: Seconds | None = Field(None, description="initialDelaySeconds is before the first time.")
    timeout_seconds: Seconds | None = Field(None, description="timeoutSeconds is for one answer.")
    period_seconds: Seconds | None = Field(None, description="periodSeconds is between two times.")
    success_threshold: Tries | None = Field(None, description="successThreshold is how many successes in a row count.")
    failure_threshold: Tries | None = Field(None, description="failureThreshold is how many failures in a row count.")
    termination_grace_period_seconds: Seconds | None = Field(
        None, description="terminationGracePeriodSeconds is how long a failed container may take to end."
    )


class Hook(Piece):
    """What the kubelet does at one moment of a container's life."""

    exec_: Exec | None = Field(None, alias="exec", description="exec runs a command.")
    http_get: HttpGet | None = Field(None, description="httpGet calls the pod's own address.")
    sleep: Sleep | None = Field(None, description="sleep waits.")


class Lifecycle(Piece):
    """What happens after a container's start and before its end."""

    post_start: Hook | None = Field(None, description="postStart is after the start.")
    pre_stop: Hook | None = Field(None, description="preStop is before the end.")


class Container(Piece):
    """A container by name: the serving container is server, any other name is added to the pod."""

    name: DnsLabel = Field(description="name is the container; server is the serving one.")
    image: Annotated[str, Field(min_length=1, max_length=1024)] | None = Field(None, description="image is its image.")
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = Field(
        None, description="imagePullPolicy says when the node pulls the image."
    )
    command: list[Word] | None = rows(WORDS_MAX, "command replaces the image's own.")
    args: list[Word] | None = rows(WORDS_MAX, "args are the command's arguments.")
    working_dir: Path | None = Field(None, description="workingDir is where the command starts.")
    env: list[ContainerVariable] | None = rows(VARIABLES_MAX, "env are variables.", key="name")
    env_from: list[EnvFrom] | None = rows(PORTS_MAX, "envFrom are variables from whole objects.")
    ports: list[ContainerPort] | None = rows(PORTS_MAX, "ports are the ports that others may call.")
    resources: Resources | None = Field(None, description="resources are what it asks for and may take.")
    volume_mounts: list[VolumeMount] | None = rows(MOUNTS_MAX, "volumeMounts are its volumes.", key="mountPath")
    liveness_probe: Probe | None = Field(None, description="livenessProbe restarts it when it fails.")
    readiness_probe: Probe | None = Field(None, description="readinessProbe keeps requests away while it fails.")
    startup_probe: Probe | None = Field(None, description="startupProbe holds the other probes back.")
    lifecycle: Lifecycle | None = Field(None, description="lifecycle are its hooks.")
    restart_policy: Literal["Always", "OnFailure", "Never"] | None = Field(
        None, description="restartPolicy Always makes an init container a sidecar."
    )
    termination_message_path: Path | None = Field(
        None, description="terminationMessagePath is the file of its last words."
    )
    termination_message_policy: Literal["File", "FallbackToLogsOnError"] | None = Field(
        None, description="terminationMessagePolicy says where its last words come from."
    )
    stdin: bool | None = Field(None, description="stdin gives it an input.")
    tty: bool | None = Field(None, description="tty gives it a terminal.")
