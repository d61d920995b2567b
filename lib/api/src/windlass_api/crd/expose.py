"""`spec.expose`: who may call the service, and from where."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from windlass_api.crd.base import WHOLE_LIST, ApiModel, NameRef, not_stored, schema_extra, string_map
from windlass_api.crd.rules import (
    EXPOSED_PATH_RULES,
    GATEWAY_RULES,
    HOST_RULES,
    INGRESS_ANNOTATION_RULES,
    KEYS_RULES,
    TLS_RULES,
)

Host = Annotated[str, Field(min_length=1, max_length=253, json_schema_extra=schema_extra(*HOST_RULES))]

# Printable ASCII without what ends or opens a statement in a controller's configuration: quotes, ; { } $ \\ # and `.
ANNOTATION_VALUE = r"^[A-Za-z0-9 ._:/,\*@%+=()|^~<>!?&\[\]-]*$"
IngressAnnotations = Annotated[
    dict[str, Annotated[str, Field(max_length=1024, pattern=ANNOTATION_VALUE)]],
    string_map(32, {"maxLength": 1024, "pattern": ANNOTATION_VALUE}, *INGRESS_ANNOTATION_RULES),
]


class IngressSpec(ApiModel):
    """An Ingress in front of the service."""

    model_config = ConfigDict(json_schema_extra=schema_extra(*TLS_RULES))

    host: Host = Field(description="host is the name that clients call.")
    class_name: str = Field(
        "", max_length=253, description="className is the IngressClass; empty means the cluster's default."
    )
    tls_secret: str = Field(
        "",
        max_length=253,
        json_schema_extra=not_stored,
        description="tlsSecret is the older form of tlsSecretRef: the Secret's name alone.",
    )
    tls_secret_ref: NameRef | None = Field(
        None, description="tlsSecretRef is the Secret with the host's certificate; left out: plain HTTP."
    )
    annotations: IngressAnnotations = Field(
        default_factory=dict,
        max_length=32,
        description="annotations are added to the Ingress and win over Windlass's own; the installation allows them.",
    )

    @property
    def certificate(self) -> str:
        """The Secret with the host's certificate, in whichever form; empty without one."""
        return self.tls_secret_ref.name if self.tls_secret_ref else self.tls_secret


class ParentRef(ApiModel):
    """One Gateway that the route attaches to."""

    name: str = Field(min_length=1, max_length=253, description="name is the Gateway.")
    namespace: str = Field(
        "", max_length=63, description="namespace is the Gateway's; empty means the service's own namespace."
    )
    section_name: str = Field(
        "", max_length=253, description="sectionName is the Gateway's listener; empty means all of them."
    )


class GatewaySpec(ApiModel):
    """An HTTPRoute of the Gateway API in front of the service."""

    parent_refs: list[ParentRef] = Field(
        min_length=1,
        max_length=8,
        json_schema_extra={**WHOLE_LIST, **schema_extra(*GATEWAY_RULES)},
        description="parentRefs are the Gateways that the route attaches to.",
    )
    hostnames: list[Host] = Field(
        default_factory=list,
        max_length=16,
        json_schema_extra=WHOLE_LIST,
        description="hostnames are the names that clients call; empty means all of the Gateway's.",
    )


class ExposeSpec(ApiModel):
    """How the service is called."""

    model_config = ConfigDict(json_schema_extra=schema_extra(*KEYS_RULES))

    api_keys_secret: str = Field(
        "",
        max_length=253,
        json_schema_extra=not_stored,
        description="apiKeysSecret is the older form of apiKeysSecretRef: the Secret's name alone.",
    )
    api_keys_secret_ref: NameRef | None = Field(
        None,
        description=(
            "apiKeysSecretRef is a Secret each of whose values holds API keys, one on a line, or as YAML with a name "
            "and limits for each; left out: no keys."
        ),
    )
    path: str = Field(
        "",
        max_length=128,
        json_schema_extra=schema_extra(*EXPOSED_PATH_RULES),
        description="path is the prefix of ingress and gateway, such as /qwen2-7b; empty: the whole host.",
    )
    ingress: IngressSpec | None = Field(None, description="ingress makes an Ingress for clients outside the cluster.")
    gateway: GatewaySpec | None = Field(
        None, description="gateway makes an HTTPRoute of the Gateway API for clients outside the cluster."
    )
    timeout_seconds: int = Field(
        3600,
        ge=1,
        le=86400,
        description="timeoutSeconds is how long a front may wait for an answer or its next token.",
    )

    @property
    def keys_secret(self) -> str:
        """The Secret with the API keys, in whichever form; empty without one."""
        return self.api_keys_secret_ref.name if self.api_keys_secret_ref else self.api_keys_secret
