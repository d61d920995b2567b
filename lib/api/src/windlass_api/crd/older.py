"""Fields of v1alpha1 that have a newer form: they work, and the status says what to write instead. Pure."""

from __future__ import annotations

from collections.abc import Callable

from windlass_api.crd.v1alpha1 import LLMServiceSpec

OLDER: tuple[tuple[str, Callable[[LLMServiceSpec], str]], ...] = (
    ("spec.expose.apiKeysSecret", lambda spec: spec.expose.api_keys_secret),
    ("spec.expose.ingress.tlsSecret", lambda spec: spec.expose.ingress.tls_secret if spec.expose.ingress else ""),
    ("spec.cache.pvc", lambda spec: spec.cache.pvc),
)
"""A name alone, by its field; the object beside it is called `Ref` more. A later version has the objects alone."""


def older_forms(spec: LLMServiceSpec) -> tuple[str, ...]:
    """The fields in use that have a newer form, each with what to write instead."""
    used = ((field, read(spec)) for field, read in OLDER)
    return tuple(f"{field}: write {field.rpartition('.')[2]}Ref: {{name: {name}}}" for field, name in used if name)
