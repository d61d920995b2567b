"""Lists whose rows have a key, by Kubernetes' published OpenAPI (x-kubernetes-list-map-keys).

`make list-keys` writes this file from the API server of the tests; nobody edits it. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

KUBERNETES = "v1.34.4"
# The field above and the field → the fields of a row's key, each with the value of a row that leaves it out.
KEYS: Mapping[tuple[str, str], Mapping[str, str | int]] = {
    ("containers", "env"): {"name": ""},
    ("containers", "ports"): {"containerPort": 0, "protocol": "TCP"},
    ("containers", "volumeDevices"): {"devicePath": ""},
    ("containers", "volumeMounts"): {"mountPath": ""},
    ("ephemeralContainers", "env"): {"name": ""},
    ("ephemeralContainers", "ports"): {"containerPort": 0, "protocol": "TCP"},
    ("ephemeralContainers", "volumeDevices"): {"devicePath": ""},
    ("ephemeralContainers", "volumeMounts"): {"mountPath": ""},
    ("initContainers", "env"): {"name": ""},
    ("initContainers", "ports"): {"containerPort": 0, "protocol": "TCP"},
    ("initContainers", "volumeDevices"): {"devicePath": ""},
    ("initContainers", "volumeMounts"): {"mountPath": ""},
    ("metadata", "ownerReferences"): {"uid": ""},
    ("resources", "claims"): {"name": ""},
    ("spec", "containers"): {"name": ""},
    ("spec", "ephemeralContainers"): {"name": ""},
    ("spec", "hostAliases"): {"ip": ""},
    ("spec", "imagePullSecrets"): {"name": ""},
    ("spec", "initContainers"): {"name": ""},
    ("spec", "ports"): {"port": 0, "protocol": "TCP"},
    ("spec", "resourceClaims"): {"name": ""},
    ("spec", "schedulingGates"): {"name": ""},
    ("spec", "topologySpreadConstraints"): {"topologyKey": "", "whenUnsatisfiable": ""},
    ("spec", "volumes"): {"name": ""},
}
