"""Whatever `spec.podTemplate` says, the pods that are rendered keep what the operator promises of them.

`WINDLASS_ATTACK_OVERLAYS=100000` draws that many, `WINDLASS_ATTACK_SEED` others; the gate draws a few hundred.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from admission_draws import CLAIM, MODEL, SUB_PATH, annotations, piece
from admission_invariants import ingress_complaints, pod_complaints
from windlass_operator.errors import UserError
from windlass_operator.manifests.pod import PodShape, pod_template
from windlass_operator.manifests.route import ingress
from windlass_operator.reconcile.desired_state import must_be_allowed, parse_service
from windlass_operator.settings import Settings

OVERLAYS = int(os.environ.get("WINDLASS_ATTACK_OVERLAYS", "400"))
INGRESSES = int(os.environ.get("WINDLASS_ATTACK_INGRESSES", "2000"))
SEED = int(os.environ.get("WINDLASS_ATTACK_SEED", "7"))
SETTINGS = Settings("windlass/server", "1", "windlass/operator:1")
SHAPE = PodShape("windlass/server:1", ("run",), "1", "4Gi", "1Gi", command=("windlass",), gpus=1)
TOLD_MAX = 12  # rows of a failure's summary


def a_service(**spec: Any) -> dict[str, Any]:
    model = {"id": "m", "source": {"pvc": {"claimName": CLAIM, "path": SUB_PATH}}}
    return {"metadata": {"name": "a", "namespace": "b", "uid": "u"}, "spec": {"model": model, **spec}}


def summary(found: Counter[str], taken: int, drawn: int) -> str:
    rows = (f"{count:7} {text}" for text, count in found.most_common(TOLD_MAX))
    return "\n".join((f"{drawn} drawn, {taken} taken, {found.total()} complaints", *rows))


@pytest.mark.timeout(3600)
def test_every_accepted_overlay_keeps_the_pods_invariants() -> None:
    """At least a fifth is taken, so something is tried; nothing ends otherwise than with a sentence."""
    rng, found, taken = random.Random(SEED), Counter[str](), 0  # noqa: S311 - draws, no secrets
    plain = pod_template(parse_service(a_service()), SHAPE)["spec"]
    for _ in range(OVERLAYS):
        raw = a_service(podTemplate={"spec": piece(rng)})
        try:
            service = parse_service(raw)
            must_be_allowed(service, SETTINGS)
        except UserError as error:
            assert str(error).startswith("spec.podTemplate"), error
            continue
        taken += 1
        found.update(set(pod_complaints(pod_template(service, SHAPE)["spec"], MODEL, plain)))
    print(summary(found, taken, OVERLAYS))
    assert not found, summary(found, taken, OVERLAYS)
    assert taken > OVERLAYS // 5


@pytest.mark.timeout(3600)
def test_every_ingress_that_is_taken_steers_no_controller() -> None:
    """Keys of six controllers with values that try to leave their place."""
    rng, found, taken = random.Random(SEED), Counter[str](), 0  # noqa: S311 - draws, no secrets
    for _ in range(INGRESSES):
        raw = a_service(expose={"ingress": {"host": "a.example", "annotations": annotations(rng)}})
        try:
            service = parse_service(raw)
            must_be_allowed(service, SETTINGS)
        except UserError as error:
            assert str(error).startswith("spec.expose.ingress.annotations"), error
            continue
        taken += 1
        wish = service.spec.expose.ingress
        assert wish is not None
        found.update(set(ingress_complaints(ingress(service, wish))))
    print(summary(found, taken, INGRESSES))
    assert not found, summary(found, taken, INGRESSES)
    assert taken > INGRESSES // 50
