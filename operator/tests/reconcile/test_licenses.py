"""An installation that needs no licenses."""

from __future__ import annotations

from windlass_operator.status import conditions as c

from .test_reconciler import a_node, world

__all__ = ["world"]


async def test_an_installation_without_licenses_asks_for_none(world):
    """Whatever the spec says; the pods are as those of a service that needs none, and the switch replaces them."""

    def template():
        return world.cluster.one("Deployment", "qwen")["spec"]["template"]

    world.cluster.put("Node", a_node())
    await world.planned(license={"required": False, "addresses": ["http://ls"]})
    without = template()
    await world.planned(license={"required": True, "addresses": ["http://ls"]})
    assert template() != without
    world.reconciler = world.another_operator(license_required=False)
    await world.look()
    assert template() == without
    licensed = c.find(world.cluster.one("LLMService", "qwen")["status"]["conditions"], "Licensed")
    assert (licensed["status"], licensed["reason"]) == ("True", "LicenseNotRequired")
