"""Replicas hold a key's limits together: never above 110 %, never below 90 % while more is offered."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from windlass.front.key_document import Limits

from .simulation import Cluster, Scene, most_in_a_minute

EXAMPLES = int(os.environ.get("WINDLASS_LIMIT_SCENES", "6"))
LOADS = ("even", "one", "uneven")


def weights(load: str, replicas: int, busy: int) -> tuple[float, ...]:
    """Shares of the load."""
    if load == "even":
        return (1.0,) * replicas
    return tuple(1.0 if row == busy else (0.0 if load == "one" else 0.1) for row in range(replicas))


@st.composite
def scenes(draw: st.DrawFn, limits: Limits, per_minute: float) -> Scene:
    replicas = draw(st.integers(1, 8))
    busy = draw(st.integers(0, replicas - 1))
    dies_at = draw(st.none() | st.floats(0, 120)) if replicas > 1 else None
    return Scene(
        replicas,
        limits,
        weights(draw(st.sampled_from(LOADS)), replicas, busy),
        per_second=per_minute / 60 * draw(st.floats(2, 6)),
        dies_at=dies_at,
        dies=draw(st.integers(0, replicas - 1)),
        seed=draw(st.integers(0, 2**31)),
    )


def check(began: list[tuple[float, int]], limit: int, value) -> None:
    most, all_ = most_in_a_minute(began, value), sum(value(tokens) for _, tokens in began)
    assert most <= 1.1 * limit
    assert all_ >= 0.9 * limit * 2  # 122 s are two windows of 61 whole seconds


@pytest.mark.parametrize("limit", [10, 120])
def test_requests_stay_within_a_tenth(limit: int) -> None:
    """Any load on one to eight replicas, one of them dying, the deciding one too."""

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(scenes(Limits(requests=limit), limit))
    def hold(scene: Scene) -> None:
        cluster = Cluster(scene)
        cluster.run()
        check(cluster.began, limit, lambda _: 1)

    hold()


@settings(max_examples=EXAMPLES, deadline=None)
@given(scenes(Limits(tokens=60_000), 200))
def test_tokens_stay_within_a_tenth(scene: Scene) -> None:
    """Answers of 150 to 450 tokens, known only when they end."""
    cluster = Cluster(scene)
    cluster.run()
    check(cluster.began, 60_000, lambda tokens: tokens)


@settings(max_examples=EXAMPLES, deadline=None)
@given(scenes(Limits(concurrency=5), 600))
def test_running_requests_stay_within_the_limit(scene: Scene) -> None:
    """Of all replicas together; one that dies loses what it ran, and the others may begin as many."""
    cluster = Cluster(scene)
    cluster.run()
    assert cluster.most_running <= 5 + (5 if scene.dies_at is not None else 0)
    assert len(cluster.began) >= 0.9 * 122 * min(5 / scene.answer_s, scene.per_second) * 0.8
