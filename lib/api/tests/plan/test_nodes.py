"""A plan takes only nodes on which the scheduler would put the pods."""

from __future__ import annotations

import dataclasses

import pytest
from windlass_api.objects.inventory import gpu_signature, usable
from windlass_api.plan.model import NodeGpus, Taint
from windlass_api.plan.nodes import REQUIRED, has_labels, untolerated
from windlass_testbed.cases import every_case

from .test_decide import a_spec, planned, refused

DEDICATED = Taint("dedicated", "inference", "NoSchedule")
OTHER = NodeGpus("node-a", "NVIDIA-L20", 44.99, 8, 8, {"pool": "other", "rank": "1"})
MINE = NodeGpus("node-b", "NVIDIA-A100-SXM4-80GB", 80.0, 8, 8, {"pool": "mine", "rank": "20"})
TAINTED = dataclasses.replace(MINE, taints=(DEDICATED,))
BEARS = {"key": "dedicated", "value": "inference", "effect": "NoSchedule"}


def affinity(*expressions, field=False):
    term = {"matchFields" if field else "matchExpressions": list(expressions)}
    return {"podTemplate": {"spec": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}}}


def row(key, operator, *values):
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


WISHES = {
    "a selector": {"scheduling": {"nodeSelector": {"pool": "mine"}}},
    "the pod template's selector": {"podTemplate": {"spec": {"nodeSelector": {"pool": "mine"}}}},
    "the pod template's selector over the other": {
        "scheduling": {"nodeSelector": {"pool": "other"}},
        "podTemplate": {"spec": {"nodeSelector": {"pool": "mine"}}},
    },
    "In": affinity(row("pool", "In", "mine", "x")),
    "NotIn": affinity(row("pool", "NotIn", "other")),
    "Gt": affinity(row("rank", "Gt", "3")),
    "a node's name": affinity(row("metadata.name", "In", "node-b"), field=True),
    "several conditions": affinity(row("pool", "Exists"), row("none", "DoesNotExist"), row("rank", "In", "20")),
}


@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES.keys())
def test_a_plan_takes_the_nodes_that_the_spec_limits_it_to(wish):
    """The other node's cards are smaller, and would else be taken."""
    plan = planned(nodes=(OTHER, MINE), **wish)
    assert (plan.gpu_type, plan.gpus) == ("A100-80G", 1)
    assert planned(nodes=(OTHER, MINE)).gpu_type == "L20"


HOLDS = {
    "a label that is not there": (row("zone", "In", "a"), False),
    "NotIn of a label that is not there": (row("zone", "NotIn", "a"), True),
    "Exists of a label that is not there": (row("zone", "Exists"), False),
    "DoesNotExist of one that is": (row("pool", "DoesNotExist"), False),
    "Lt": (row("rank", "Lt", "21"), True),
    "Lt of the same number": (row("rank", "Lt", "20"), False),
    "Gt of a text": (row("pool", "Gt", "1"), False),
}


@pytest.mark.parametrize(("condition", "expected"), HOLDS.values(), ids=HOLDS.keys())
def test_a_condition_holds_as_for_the_scheduler(condition, expected):
    assert has_labels(MINE, a_spec(**affinity(condition))) is expected


def test_terms_are_alternatives_and_an_empty_one_fits_no_node():
    """And the term of the selector holds beside them."""
    spec = a_spec(**affinity())
    assert not has_labels(MINE, spec)
    wish = affinity(row("zone", "Exists"))
    terms = wish["podTemplate"]["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    terms.append({"matchExpressions": [row("pool", "In", "mine")]})
    assert has_labels(MINE, a_spec(**wish))
    assert not has_labels(MINE, a_spec(**wish, scheduling={"nodeSelector": {"pool": "other"}}))


BORNE = {
    "none": ([], False),
    "the same": ([BEARS], True),
    "another value": ([{**BEARS, "value": "batch"}], False),
    "another effect": ([{**BEARS, "effect": "NoExecute"}], False),
    "any effect": ([{"key": "dedicated", "value": "inference"}], True),
    "any value": ([{"key": "dedicated", "operator": "Exists"}], True),
    "every taint": ([{"operator": "Exists"}], True),
    "one of several": ([{"key": "x", "operator": "Exists"}, BEARS], True),
}


@every_case("rows, borne", BORNE.values(), ids=BORNE.keys())
@every_case("where", ["scheduling", "podTemplate"])
def test_a_taint_keeps_off_what_does_not_bear_it(where, rows, borne):
    """The smaller cards are taken where they may be; the tainted node where there is no other and the spec bears it."""
    wish = (
        {"scheduling": {"tolerations": rows}}
        if where == "scheduling"
        else {"podTemplate": {"spec": {"tolerations": rows}}}
    )
    assert (untolerated(TAINTED, a_spec(**wish)) is None) is borne
    assert planned(nodes=(OTHER, TAINTED), resources={"gpus": 1}, **wish).gpu_type == "L20"
    if borne:
        assert planned(nodes=(TAINTED,), **wish).gpu_type == "A100-80G"
    else:
        assert refused(nodes=(TAINTED,), **wish).reason == "UntoleratedTaint"


def test_the_taint_of_gpus_is_borne_without_being_named():
    """Of whole cards and of the slice that is asked for."""
    gpu = dataclasses.replace(MINE, taints=(Taint("nvidia.com/gpu", "present", "NoSchedule"),))
    assert planned(nodes=(gpu,)).gpu_type == "A100-80G"
    slices = NodeGpus(
        "s", "", 9.75, 2, 2, {}, "nvidia.com/mig-1g.10gb", taints=(Taint("nvidia.com/mig-1g.10gb", "", "NoExecute"),)
    )
    assert untolerated(slices, a_spec()) is None


def test_a_refusal_names_the_labels_or_the_taints():
    """And the nodes that were looked at; of very many a few."""
    refusal = refused(nodes=(OTHER,), scheduling={"nodeSelector": {"pool": "mine"}})
    assert refusal.reason == "NoMatchingNode"
    assert refusal.message == "no GPU node that may be taken has the labels pool=mine; these are: node-a"
    assert "spec.podTemplate" in refused(nodes=(OTHER,), **affinity(row("zone", "Exists"))).message
    many = tuple(
        dataclasses.replace(TAINTED, node=f"n{n}", taints=(dataclasses.replace(DEDICATED, key=f"k{n}"),))
        for n in range(9)
    )
    refusal = refused(nodes=many)
    assert refusal.message.endswith("k0=inference:NoSchedule, k1=inference:NoSchedule, k2=inference:NoSchedule, "
                                    "k3=inference:NoSchedule and 5 more")  # fmt: skip
    assert "spec.scheduling.tolerations" in refusal.remedy


def a_node(*taints):
    return {
        "metadata": {"name": "n"},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": {"nvidia.com/gpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def test_taints_are_read_of_nodes_but_for_passing_states():
    """A node that is short of memory for a minute changes no plan; a taint that is new is news."""
    asked, passing = {"key": "a", "effect": "PreferNoSchedule"}, {"key": "node.kubernetes.io/memory-pressure"}
    item = a_node(BEARS, asked, {**passing, "effect": "NoSchedule"})
    (node,) = usable([item])
    assert node.taints == (DEDICATED,)
    assert gpu_signature(item) == gpu_signature(a_node(BEARS))
    assert gpu_signature(item) != gpu_signature(a_node())
