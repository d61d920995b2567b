"""The closed table: every word that any part can say has its row."""

from __future__ import annotations

from windlass_api.plan.model import REFUSAL_REASONS
from windlass_operator.status import admission, crashes, kubelet, reasons, requeue, scheduling, signatures
from windlass_sizing.files import checkpoint
from windlass_testbed.cases import every_case


def test_every_word_stands_once():
    words = [row.word for row in reasons.ROWS]
    assert sorted(set(words)) == sorted(words)


@every_case("word", checkpoint.REASONS)
def test_every_word_of_the_inspection_has_a_row(word):
    assert reasons.row(word).severity == reasons.WARNING


@every_case("word", REFUSAL_REASONS)
def test_every_refusal_of_the_plan_has_a_row(word):
    assert reasons.row(word).severity == reasons.WARNING


def test_every_word_of_a_pod_s_failure_has_a_row():
    tables = (kubelet.IMAGE_WORDS, kubelet.CONFIG_WORDS, kubelet.MOUNT_WORDS, kubelet.SANDBOX_WORDS,
              kubelet.EVICTION_WORDS, scheduling.SCHEDULER_WORDS, admission.REFUSALS)  # fmt: skip
    words = {reason for table in tables for _, reason in table} | {row.reason for row in signatures.SIGNATURES}
    words |= {*kubelet.WAITING_WORDS.values(), *kubelet.POD_REASONS.values(), *kubelet.DISRUPTIONS.values()}
    words |= {*crashes.STARTED_REASONS.values(), *crashes.SAID_REASONS.values(), *crashes.EXIT_REASONS.values()}
    words |= {*crashes.VAGUE, *requeue.LICENSE_REASONS, *scheduling.REQUESTS}
    assert words - reasons.TABLE.keys() == set()


@every_case("row", reasons.ROWS)
def test_a_row_says_what_it_means_and_what_to_do(row):
    """One word in camel case, as Kubernetes wants it, and two texts without a full stop."""
    assert row.word[0].isupper()
    assert row.word.isalpha()
    assert row.meaning
    assert row.remedy
    assert not (row.meaning + row.remedy).endswith(".")


def test_a_remedy_is_reported_once():
    once = reasons.explain("ScaledToZero", "spec.replicas is 0")
    assert once == "spec.replicas is 0"
    told = reasons.explain("BadFlag", "unknown flag --x.")
    assert told == "unknown flag --x; correct spec.args or spec.engine"
    assert reasons.explain("BadFlag", told) == told
