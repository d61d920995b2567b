"""The speculation policy: drafts to plan, to verify and to wait for. Times are inputs, so no test has a clock."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from windlass.engine.lookahead.step_costs import judging_ms, step_costs_ms
from windlass_lookahead.policy import DEFAULTS, SpeculationPolicy, drafts_to_plan
from windlass_testbed.cases import every_case

from .policy_events import RECORDING, Replay
from .policy_rules import RULES, config

MOST = 6
SURE = [0.9] * MOST
"""Survivals of a request whose text comes back."""
FREE = [1.0] * (MOST + 1)
DEAR = [1.0 + drafts for drafts in range(MOST + 1)]
CHEAP = np.linspace(10.0, 10.5, MOST + 1).tolist()
"""By the engine's table a draft costs a hundredth of a step."""


def a_policy(without=(), most=MOST):
    return SpeculationPolicy(most, config(without))


def a_step(policy, ids, survivals=(), *, us=10_000, verified=0, wanted=True, decoding=True, late=False):
    """One step from its doorbell to the decision whether to plan; its rows were drafted for as they were before."""
    policy.doorbell(us, late, len(ids))
    policy.completed(len(ids), decoding, wanted, verified)
    for request in ids:
        policy.drafted(request, list(survivals), sum(survivals))
    policy.update_planning(ids, decoding)


def chosen(policy, ids, costs, *, planned=MOST, emitting=None, decoding=True, behind=0):
    emitting = len(ids) if emitting is None else emitting
    return policy.drafts_to_verify(ids, [planned] * len(ids), costs, emitting, decoding, behind)


@pytest.mark.parametrize(
    ("before", "survivals", "tokens"),
    [(0, [], 0), (0, [0.5, 0.25], 0.75), (2, [0.5, 0.25], 1.8), (2, [1, 1, 1], 3), (1, [], 0.9)],
)
def test_an_expectation_is_the_latest_draft_or_what_is_left_of_the_one_before(before, survivals, tokens):
    assert a_policy().expected_tokens(before, survivals) == pytest.approx(tokens)


@pytest.mark.parametrize(
    ("rows", "us", "tokens", "awaited"),
    [
        (1, 5000, 0.0059, False), (1, 5000, 0.0061, True), (64, 5000, 0.13, False), (64, 5000, 0.14, True),
        (1, 30, 0.9, False), (1, 30, 1.1, True),
    ],
)  # fmt: skip
def test_a_row_is_awaited_when_its_drafts_save_more_than_the_wait(rows, us, tokens, awaited):
    """20 µs and 10 for each row of the batch, in tokens of a step's time."""
    policy = a_policy()
    for _ in range(400):
        policy.doorbell(us, False, rows)
    assert policy.is_awaited(tokens) == awaited


@pytest.mark.parametrize(
    ("periods", "step_us"),
    [([], 5000), ([0], 4750), ([15_000], 5500), ([60_000], 7250), ([250_000], 5000)],
    ids=["none", "short", "usual", "cut", "idle"],
)
def test_the_mean_step_leaves_out_pauses(periods, step_us):
    policy = a_policy()
    for period_us in periods:
        policy.doorbell(period_us, False, 1)
    assert policy.step_us == pytest.approx(step_us)


@pytest.mark.parametrize(
    ("tokens", "budget", "of_300"), [(0, 0, 0), (0.1, 1, 1), (0.3, 2, 2), (1, 3, 3), (6, 7, 13), (200, 7, 255)]
)
def test_a_draft_budget_is_zero_or_one_more_than_a_full_step_plans(tokens, budget, of_300):
    """It fits into a byte, however many drafts a request may have."""
    assert a_policy().draft_budget(tokens) == budget
    assert a_policy(most=300).draft_budget(tokens) == of_300


@pytest.mark.parametrize(
    ("budget", "is_full", "drafts"),
    [(0, False, 0), (0, True, 0), (1, False, 6), (1, True, 0), (4, False, 6), (4, True, 3), (255, True, 6)],
)
def test_the_scheduler_plans_all_drafts_or_in_a_full_step_the_budget(budget, is_full, drafts):
    assert drafts_to_plan(budget, MOST, is_full=is_full) == drafts


def test_a_new_request_is_expected_to_be_as_new_ones_were():
    policy = a_policy()
    first = policy.new_request_tokens()
    assert first == pytest.approx(0.1 * (2 - 2**-5))
    for number in range(60):
        policy.drafted(f"r{number}", [], 0.0)
    assert policy.new_request_tokens() < 0.06 * first
    for number in range(60, 120):
        policy.drafted(f"r{number}", SURE, 5.4)
    assert policy.new_request_tokens() > 5
    before = policy.new_request_tokens()
    policy.drafted("r119", [], 0.0)
    assert policy.new_request_tokens() == before, "only the first draft of a request counts"


@pytest.mark.parametrize(
    ("costs", "planned", "drafts"),
    [(FREE, MOST, MOST), (FREE[:3], 2, 2), (FREE[:4], MOST, 3), (FREE[:1], 0, 0), (DEAR, MOST, 0), ([], MOST, 0)],
    ids=["free", "as planned", "as room", "none planned", "dear", "no table"],
)
def test_a_step_verifies_the_drafts_with_the_most_tokens_for_the_time(costs, planned, drafts):
    policy = a_policy()
    policy.drafted("a", SURE, 5.4)
    assert chosen(policy, ["a"], costs, planned=planned) == drafts


def test_a_request_that_ended_or_was_abandoned_is_not_expected_to_be_drafted_for():
    policy = a_policy()
    policy.drafted("a", SURE, 5.4)
    policy.abandon("a")
    assert chosen(policy, ["a"], FREE) == 0
    policy.drafted("b", SURE, 5.4)
    policy.finish("b")
    assert chosen(policy, ["b"], DEAR[:2]) == 0


def test_a_draft_that_no_step_awaits_counts_as_none():
    policy = a_policy()
    policy.drafted("a", SURE, 0.0)
    assert chosen(policy, ["a"], FREE) == 0


@pytest.mark.parametrize(("behind", "drafts"), [(-1, MOST), (0, MOST), (1, MOST), (2, 0), (9, 0)])
def test_nothing_is_verified_while_the_host_is_two_steps_late(behind, drafts):
    policy = a_policy()
    policy.drafted("a", SURE, 5.4)
    assert chosen(policy, ["a"], FREE, behind=behind) == drafts


@pytest.mark.parametrize(("emitting", "drafts"), [(2, 0), (1, 1)])
def test_a_draft_is_worth_more_beside_requests_that_read_prompts(emitting, drafts):
    """Without the draft the step would emit less."""
    costs = (np.linspace(1.0, 1.3, MOST + 1) + 0.04 * (np.arange(MOST + 1) > 0)).tolist()
    found = a_policy().drafts_to_verify(["new", "reads"], [MOST, 0], costs, emitting, False, 0)
    assert found == drafts


def test_in_a_small_batch_the_mean_of_earlier_steps_counts_too():
    """The last step alone misses drafts that come after a step without any."""
    policy, plain = a_policy(), a_policy(["batch-mean"])
    costs = np.linspace(1.0, 1.2, MOST + 1).tolist()
    found = []
    for number in range(60):
        for one in (policy, plain):
            one.drafted("a", SURE if number % 3 == 0 else [], 5.4)
        found.append((chosen(policy, ["a"], costs, decoding=False), chosen(plain, ["a"], costs, decoding=False)))
    assert min(ours for ours, _ in found[30:]) > 0
    assert min(theirs for _, theirs in found[30:]) == 0


def test_a_small_gain_is_tried_after_eight_plain_steps():
    policy = a_policy()
    counts = []
    for _ in range(12):
        policy.drafted("a", [0.2], 0.2)
        counts.append(chosen(policy, ["a"], CHEAP))
        a_step(policy, ["a"], [0.2])
    assert counts == [0] * 9 + [1] * 3, "the first step has none before it to be timed with"


def test_a_small_gain_is_tried_after_64_steps_though_no_plain_step_was_seen():
    """A batch that reads prompts in every other step never has one."""
    policy = a_policy()
    policy.drafted("a", [0.2], 0.2)
    assert [chosen(policy, ["a"], CHEAP) for _ in range(66)] == [0] * 64 + [1] * 2


def test_a_large_gain_is_tried_at_once():
    policy = a_policy()
    policy.drafted("a", SURE, 5.4)
    assert chosen(policy, ["a"], CHEAP) == MOST


@pytest.mark.parametrize(("plain_us", "verifying_us", "drafts"), [(12_000, 3_000, 1), (10_000, 14_000, 0)])
def test_the_time_that_steps_with_drafts_took_counts_more_than_the_table(plain_us, verifying_us, drafts):
    """The table has a draft at a hundredth of a step; on a slow host it may be another step's time."""
    policy = a_policy()
    for number in range(80):
        chosen(policy, ["a"], CHEAP)
        verified = number % 2
        a_step(policy, ["a"], [0.2], us=verifying_us if verified else plain_us, verified=verified)
    assert chosen(policy, ["a"], CHEAP) == drafts


@pytest.mark.parametrize(
    ("how", "counted"),
    [({}, True), ({"late": True}, False), ({"decoding": False}, False), ({"us": 60_000}, False)],
    ids=["timed", "the host came late", "a prompt was read", "too long"],
)
def test_only_steps_whose_time_is_their_own_are_samples(how, counted):
    policy = a_policy()
    policy.drafted("a", [0.2], 0.2)
    for _ in range(20):
        chosen(policy, ["a"], CHEAP)
        a_step(policy, ["a"], [0.2], **how)
    assert (chosen(policy, ["a"], CHEAP) > 0) == counted


def test_row_counts_within_an_eighth_share_their_times():
    policy = a_policy()
    costs = {rows: np.linspace(10.0, 10.5, rows * MOST + 1).tolist() for rows in (16, 17, 24)}
    ids = {rows: [f"r{row}" for row in range(rows)] for rows in costs}
    for _ in range(20):
        chosen(policy, ids[17], costs[17])
        a_step(policy, ids[17], [0.2])
    for request in ids[24]:
        policy.drafted(request, [0.2], 0.2)
    assert chosen(policy, ids[24], costs[24]) == 0, "no step like it was seen"
    assert chosen(policy, ids[16], costs[16]) > 0


NAMES = [f"r{row}" for row in range(17)]
"""One request more than a batch whose mean counts."""
TABLES = {
    "dear": (10.0 * np.arange(1, len(NAMES) * MOST + 2)).tolist(),
    "fair": np.linspace(10.0, 60.0, len(NAMES) * MOST + 1).tolist(),
    "cheap": np.linspace(10.0, 10.5, len(NAMES) * MOST + 1).tolist(),
}


def plans(policy, table, steps, *, wanted=True, us=10_000, names=NAMES, survivals=SURE, late=False):
    """Whether drafts are planned after each of so many steps."""
    found = []
    for _ in range(steps):
        if wanted:
            chosen(policy, names, table)
        a_step(policy, names, survivals, us=us, wanted=wanted, late=late)
        found.append(policy.draft_budget(6.0) > 0)
    return found


def test_a_large_batch_that_would_verify_none_plans_none_after_three_steps():
    policy = a_policy()
    assert plans(policy, TABLES["dear"], 5) == [True, True, False, False, False]
    assert not any(plans(policy, TABLES["dear"], 5, wanted=False)), "it stays so while none are planned"
    assert any(plans(policy, TABLES["cheap"], 12))


@pytest.mark.parametrize("rows", [1, 4, 10])
def test_a_small_batch_that_would_verify_none_plans_none(rows):
    """On an H100 with a slow host ten requests took 2 to 4 % longer while small batches always planned."""
    assert not plans(a_policy(), TABLES["dear"], 20, names=NAMES[:rows])[-1]
    assert plans(a_policy(["planning-worth"]), TABLES["dear"], 20, names=NAMES[:rows])[-1]


@pytest.mark.parametrize("rows", [1, 10, 17])
@pytest.mark.parametrize("unseen", [{"us": 60_000}, {"late": True}], ids=["long", "late"])
def test_plain_steps_that_cannot_be_timed_do_not_end_planning_for_good(rows, unseen):
    policy, names = a_policy(), NAMES[:rows]
    costs = np.linspace(10.0, 10.5, rows * MOST + 1).tolist()
    planned = True
    for _ in range(80):
        if planned:
            chosen(policy, names, costs)
        planned = plans(policy, costs, 1, wanted=False, names=names, survivals=[0.3, 0.05], **unseen)[0]
    assert all(plans(policy, costs, 20, names=names, survivals=[0.3, 0.05], **unseen))


@pytest.mark.parametrize(("without", "planned"), [((), True), (["batch-mean"], False)])
def test_ten_requests_are_planned_by_what_drafts_save_on_average(without, planned):
    """A few of them repeat text at a time, so one step says little."""
    policy, ten = a_policy(without), NAMES[:10]
    costs = np.linspace(10.0, 10.5, len(ten) * MOST + 1).tolist()
    plans(policy, costs, 20, wanted=False, names=ten)
    found = [plans(policy, costs, 1, names=ten, survivals=[] if number % 4 else SURE)[0] for number in range(20)]
    assert all(found) == planned


def test_a_batch_that_reads_prompts_plans():
    policy = a_policy()
    plans(policy, TABLES["dear"], 5)
    a_step(policy, NAMES, SURE, decoding=False)
    assert policy.draft_budget(6.0) > 0


def fair(rows):
    """Drafts with a gain below 1.5: plain steps first, none of them with planned drafts."""
    table = np.linspace(10.0, 13.0, rows * MOST + 1).tolist()
    return {"table": table, "names": NAMES[:rows], "survivals": [0.4]}


@every_case("rows", [1, 10, 17])
@every_case(
    "longer, without, planned",
    [
        (1, (), True),
        (1.4, (), False),
        (1.4, ["planning-price"], True),
        (1.02, (), True),
        (1.02, ["planning-share"], False),
    ],
)
def test_the_price_of_planning_is_charged(rows, longer, without, planned):
    """On a slow host steps with planned drafts are longer though they verify none."""
    policy, scene = a_policy(without), fair(rows)
    plans(policy, steps=20, us=10_000 * longer, **scene)
    plans(policy, steps=20, wanted=False, **scene)
    plans(policy, steps=4, us=10_000 * longer, **scene)
    assert (policy.draft_budget(6.0) > 0) == planned


@pytest.mark.parametrize("rows", [1, 10, 17])
def test_the_trust_in_that_price_fades(rows):
    """A host may become faster again while no drafts are planned."""
    for without, planned in ((), True), (["planning-trust"], False):
        policy, scene = a_policy(without), fair(rows)
        plans(policy, steps=20, us=14_000, **scene)
        plans(policy, steps=20, wanted=False, **scene)
        found = plans(policy, steps=4, us=14_000, **scene)
        assert not found[-1]
        assert plans(policy, steps=400, wanted=False, **scene)[-1] == planned


def test_judging_is_charged_beside_the_engines_table():
    table, judging = np.arange(10.0), judging_ms(1000, 9)
    assert judging.tolist() == pytest.approx([(25 + 8e-6 * 1000 * rows) / 1000 for rows in range(10)])
    assert not judging_ms(1000, 9, config(["judging"])).any()
    costs = step_costs_ms(table, 0.5, judging, plain=2, limit=3, first=3)
    assert costs.tolist() == pytest.approx([2.5, 3.5 + judging[3], 4.5 + judging[4], 5.5 + judging[5]])
    assert table.tolist() == list(range(10)), "the engine's table stays as it is"


@pytest.fixture(scope="module")
def recording():
    return json.loads(gzip.decompress(RECORDING.read_bytes()))


def differing(recording, numbers):
    """The first event of each sequence that is decided otherwise."""
    found = []
    for sequence in recording:
        replay = Replay(MOST, numbers)
        decided = ((event, replay.decide(event), decision) for event, decision in sequence["events"])
        found += next(([(sequence["name"], event)] for event, ours, kept in decided if ours != kept), [])
    return found


def test_the_recorded_decisions_are_made_again(recording):
    """To the last bit. A change of a decision is recorded by `policy_events.py`, and its reason is in the commit."""
    assert differing(recording, DEFAULTS) == []
    assert sum(len(sequence["events"]) for sequence in recording) > 2000


ABOVE = {"judging", "planning-share"}
"""Rules whose switch has a test of its own."""


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in ABOVE])
def test_a_rule_that_is_off_decides_otherwise(recording, rule):
    """So its switch works, and the recording has a case for it."""
    assert differing(recording, config([rule])) != []


def test_an_unknown_number_is_refused():
    with pytest.raises(ValueError, match="another name"):
        SpeculationPolicy(MOST, {"luck": 1.0})
    assert {name for numbers in RULES.values() for name in numbers} <= set(DEFAULTS)


def test_one_number_of_planned_drafts_for_each_request():
    with pytest.raises(ValueError, match="one number of planned drafts"):
        a_policy().drafts_to_verify(["a", "b"], [1], FREE, 2, True, 0)
