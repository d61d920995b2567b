"""A serving pod of 0.1.0 beside today's of the same service, plan and image: what an upgrade of the operator changes.

`pods-0.1.0.json` holds five services, the plan as the operator of commit dde1513 recorded it, and the pod template that
it rendered with the image windlass/server:0.1.0. A difference that is not named here would make services `Outdated`.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from windlass_api.plan.record import recorded_plan
from windlass_operator.reconcile.desired_state import parse_service, workload
from windlass_operator.reconcile.earlier import Desired, stays
from windlass_operator.records.workloads import Deployment, WorkloadSpec
from windlass_operator.settings import Settings

KNOWN: dict[str, Any] = json.loads(Path(__file__).with_name("pods-0.1.0.json").read_text())
SETTINGS = Settings("windlass/server", "0.1.0", "windlass/operator:0.1.0")
TOKEN = "license"
"""The volume with the token that 0.1.0 did not have."""
LICENSED = ("gpu", "cpu", "group")


def today(name: str) -> dict[str, Any]:
    """The pod template by the recorded plan."""
    body = {"metadata": {"name": "q", "namespace": "a", "uid": "u"}, "spec": KNOWN[name]["spec"]}
    record = recorded_plan(KNOWN[name]["record"])
    assert record is not None
    kinds = ("Deployment", "StatefulSet")
    (owner,) = [item for item in workload(parse_service(body), record, SETTINGS) if item["kind"] in kinds]
    return copy.deepcopy(json.loads(json.dumps(owner["spec"]["template"])))


def without_token(template: dict[str, Any]) -> dict[str, Any]:
    """Without what the token brings, and without the revision, which names the template of a group."""
    spec = template["spec"]
    spec["volumes"] = [row for row in spec["volumes"] if row["name"] != TOKEN]
    for container in spec["containers"]:
        container["volumeMounts"] = [row for row in container["volumeMounts"] if row["name"] != TOKEN]
        news = ("WINDLASS_LICENSE_TOKEN_FILE", "WINDLASS_GROUP_REVISION")
        container["env"] = [row for row in container["env"] if row["name"] not in news]
    return template


@pytest.mark.parametrize("name", sorted(set(KNOWN) - set(LICENSED)))
def test_a_pod_without_a_license_stays(name: str) -> None:
    """The same template, so the newer operator replaces nothing while the image is the same."""
    assert today(name) == KNOWN[name]["template"]


@pytest.mark.parametrize("name", LICENSED)
def test_a_licensed_pod_gets_its_token_and_nothing_else(name: str) -> None:
    """The one difference, for which docs/how-to/license.md says what the license server needs meanwhile."""
    then, now = KNOWN[name]["template"], today(name)
    assert now != then
    assert [row["name"] for row in now["spec"]["volumes"]].count(TOKEN) == 1
    assert without_token(now) == without_token(copy.deepcopy(then))


@pytest.mark.parametrize("name", LICENSED)
def test_a_licensed_pod_of_0_1_0_stays_at_the_upgrade(name: str) -> None:
    """Its template is kept word for word, without a token, until the service changes."""
    then = KNOWN[name]["template"]
    live = Deployment(spec=WorkloadSpec(replicas=1, template=then))
    assert stays(live, today(name), Desired(1, "windlass/operator:0.2.0", "", "p", "s", adopts=True)) == then
