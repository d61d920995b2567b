"""What kopf is told: nothing that it would keep in the cluster, which objects of a kind, where it answers its probe."""

from __future__ import annotations

import json
import logging

import kopf
import pytest
from kopf._cogs.structs import references
from kopf._core.actions import throttlers
from windlass_operator.cluster.kinds import Jobs, Pods
from windlass_operator.runtime import framework
from windlass_operator.runtime.handlers import OURS


def a_resource(kind):
    group, version, plural = kind.names
    return references.Resource(group=group, version=version, plural=plural, kind=kind.kind, namespaced=True)


def test_kopf_keeps_nothing_of_its_own():
    told = framework.settings(discover=True)
    body, patch = kopf.Body({"metadata": {"name": "x"}, "spec": {"a": 1}}), kopf.Patch()
    storage, progress = told.persistence.diffbase_storage, told.persistence.progress_storage
    storage.store(body=body, patch=patch, essence=storage.build(body=body))
    progress.store(key="k", record={}, body=body, patch=patch)
    progress.touch(body=body, patch=patch, value="v")
    assert not patch
    assert (told.posting.enabled, told.peering.standalone, told.scanning.disabled) == (False, True, False)


@pytest.mark.parametrize(("kind", "selectors"), [(Jobs, [OURS]), (Pods, [])], ids=["ours", "everyone's"])
def test_owned_kinds_are_followed_by_our_label(kind, selectors):
    told = framework.settings(discover=False)
    assert told.watching.label_selectors.collect(a_resource(kind)) == selectors


async def test_an_event_that_fails_is_logged_and_the_next_one_is_handled(caplog):
    """kopf's throttle skips events; a worker here has those of a whole stream."""
    throttler, delays, ran = throttlers.Throttler(), framework.settings(discover=False).queueing.error_delays, []
    for fails in (True, True, False):
        logger = logging.getLogger("kopf")
        async with throttlers.throttled(throttler=throttler, delays=delays, logger=logger) as should_run:
            ran.append(should_run)
            if fails:
                raise ValueError("broken")
    assert ran == [True, True, True]
    assert len([one for one in caplog.records if one.exc_info]) == 2


def test_of_a_crd_kopf_gets_what_it_reads():
    """Its schema may be megabytes, nested however its author likes."""
    meta = {"name": "x.example", "uid": "u", "resourceVersion": "1", "managedFields": []}
    raw = json.dumps({"metadata": meta, "spec": {"group": "example", "versions": [{"schema": {}}]}}).encode()
    assert json.loads(framework._group_alone(raw)) == {
        "metadata": {"name": "x.example", "uid": "u", "resourceVersion": "1"},
        "spec": {"group": "example"},
    }


def test_kopf_gets_the_identity_of_the_pod():
    """Left to itself it looks the user's name up, which ends the operator in a container whose user has none."""
    assert framework.identity("windlass-0") == "windlass-0"
    assert framework.identity("")
