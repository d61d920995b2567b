"""A reference as an object makes what its older form, the name alone, made: no pod is replaced by the change."""

from __future__ import annotations

import pytest
from windlass_api.crd.older import OLDER, older_forms
from windlass_operator.manifests.deployment import deployment
from windlass_operator.manifests.peers import peer_objects
from windlass_operator.manifests.route import ingress
from windlass_operator.manifests.sources import sources
from windlass_operator.manifests.volume import judge_claims

from .test_golden import ON_GPUS, REPLACE, a_service

HOST = {"host": "llm.example.com"}
FORMS = {
    "spec.expose.apiKeysSecret": (
        {"expose": {"apiKeysSecret": "a"}},
        {"expose": {"apiKeysSecret": "", "apiKeysSecretRef": {"name": "a"}}},
    ),
    "spec.expose.ingress.tlsSecret": (
        {"expose": {"ingress": {**HOST, "tlsSecret": "a"}}},
        {"expose": {"ingress": {**HOST, "tlsSecret": "", "tlsSecretRef": {"name": "a"}}}},
    ),
    "spec.cache.pvc": ({"cache": {"pvc": "a"}}, {"cache": {"pvc": "", "pvcRef": {"name": "a"}}}),
}


def made(spec):
    owner = a_service().with_spec(**spec).build()
    pods = deployment(owner, ON_GPUS, REPLACE, {}, 2)
    way = owner.spec.expose.ingress
    peers = peer_objects(owner, [pods], heads_only=False, closed=True)
    return pods, *peers, *([ingress(owner, way)] if way else [])


@pytest.mark.parametrize("field", FORMS)
def test_both_forms_make_the_same_objects(field):
    older, newer = FORMS[field]
    without = {"expose": {"ingress": HOST}} if "ingress" in field else {}
    assert made(older) == made(newer)
    assert made(newer) != made(without)


@pytest.mark.parametrize("field", FORMS)
def test_the_older_form_says_what_to_write_and_the_newer_says_nothing(field):
    older, newer = FORMS[field]
    told = f"{field}: write {field.rpartition('.')[2]}Ref: {{name: a}}"
    assert older_forms(a_service().with_spec(**older).build().spec) == (told,)
    assert older_forms(a_service().with_spec(**newer).build().spec) == ()


def test_every_older_form_is_shown_here():
    assert [field for field, _ in OLDER] == list(FORMS)


def test_a_cache_on_a_models_claim_is_refused_in_either_form():
    for cache in ({"pvc": "models"}, {"pvcRef": {"name": "models"}}):
        owner = a_service().from_source(pvc={"claimName": "models", "path": "m"}).with_spec(cache=cache).build()
        with pytest.raises(ValueError, match=r"spec\.cache names models, the claim of spec\.model\.source itself"):
            judge_claims(sources(owner), owner.spec.cache.claim)
