"""The models as the operator reads resources with them."""

from __future__ import annotations

from windlass_api.crd.v1alpha1 import LLMService

MINIMAL = {
    "metadata": {"name": "a", "namespace": "n", "uid": "u", "generation": 3, "managedFields": []},
    "spec": {"model": {"id": "m", "source": {"hostPath": {"path": "/models/m"}}}, "resources": {"cpu": 4}},
}


def test_a_resource_is_read_with_its_defaults():
    """What the API server stores is enough; unknown keys are left alone."""
    service = LLMService.model_validate(MINIMAL)
    assert (service.metadata.generation, service.spec.replicas) == (3, 1)
    assert service.spec.resources.cpu == "4"
    assert service.spec.engine.gpu_memory_utilization_percent == 90
    assert service.status.conditions == []


def test_a_stored_condition_without_words_is_read():
    """The schema refuses to write one, and what an earlier schema let in must not end a reconcile or a list."""
    row = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    (found,) = LLMService.model_validate({**MINIMAL, "status": {"conditions": [row]}}).status.conditions
    assert (found.type, found.reason, found.message) == ("Ready", "", "")


def test_a_status_goes_out_as_kubernetes_spells_it():
    """CamelCase, and nothing that was never set."""
    status = {"plan": {"weightsGib": "14.18", "kvCacheGib": "0.44"}, "readyReplicas": 1, "observedGeneration": 3}
    service = LLMService.model_validate({**MINIMAL, "status": status})
    out = service.status.model_dump(by_alias=True, exclude_unset=True)
    assert out == status


def test_a_status_of_an_earlier_operator_is_read():
    """The figures get their present names, at each of the three places; a present name wins."""
    card = {"weightsGiB": "14.18", "kvGiB": "0.44", "overheadGiB": "2.39", "requiredGiB": "18.90", "haveGiB": "44.99"}
    older = {"perGPU": card, "measured": {"kvGiB": "23.10", "pod": "a-0"}, "kvGiB": "1", "kvCacheGib": "2",
             "seedRequiredGiB": "20.01"}  # fmt: skip
    status = LLMService.model_validate({**MINIMAL, "status": {"plan": older}}).status
    assert status.model_dump(by_alias=True, exclude_unset=True)["plan"] == {
        "perGPU": {
            "weightsGib": "14.18", "kvCacheGib": "0.44", "overheadGib": "2.39", "requiredGib": "18.90",
            "haveGib": "44.99",
        },
        "measured": {"kvCacheGib": "23.10", "pod": "a-0"},
        "kvCacheGib": "2",
        "seedRequiredGib": "20.01",
    }  # fmt: skip


def test_a_reference_that_was_stored_without_a_key_means_token():
    """The CRD asks for the key of a new one; what Python makes says it."""
    spec = {"model": {"id": "m", "source": {"pvc": {"claimName": "a"}}}, "env": [
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]}  # fmt: skip
    reference = LLMService.model_validate({"spec": spec}).spec.env[0].value_from.secret_key_ref
    assert (reference.key, reference.model_dump()) == ("token", {"name": "s", "key": "token"})
