"""The batch of real requests on the arithmetic engine: who shares a pass, who leaves, what everybody gets."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from windlass_deepspeed.batcher import Batcher
from windlass_deepspeed.errors import RequestError
from windlass_deepspeed.metrics import Metrics
from windlass_deepspeed.progress import Piece
from windlass_deepspeed.sampling import Sampling
from windlass_deepspeed.schedule import Limits
from windlass_testbed.waiting import HANG_S, wait_until

from .echo import EOS, Echo, Letters, figure


@dataclass
class Ear:
    """Listens to one request."""

    said: list[Piece] = field(default_factory=list)
    error: RequestError | None = None
    over: threading.Event = field(default_factory=threading.Event)

    def __call__(self, said: Piece | RequestError) -> None:
        if isinstance(said, RequestError):
            self.error = said
            self.over.set()
            return
        self.said.append(said)
        if said.finish_reason:
            self.over.set()

    def text(self) -> str:
        assert self.over.wait(HANG_S), "no answer in time"
        return "".join(piece.text for piece in self.said)


ENDLESS = 10**9  # tokens


def ask(batcher: Batcher, prompt: str, **options: object) -> tuple[int, Ear]:
    ear = Ear()
    sampling = Sampling(**({"max_tokens": 50} | options))
    return batcher.submit(Letters().encode(prompt), sampling, ear), ear


@pytest.fixture
def patient(echo: Echo, metrics: Metrics) -> Iterator[Batcher]:
    """A batcher that waits for four requests however long the test's thread is held up."""
    made = Batcher(echo, Letters().decode, frozenset({EOS}), Limits(batch_size=4, wait_s=10 * HANG_S), metrics)
    made.start()
    yield made
    made.close()


def test_requests_that_come_together_share_a_batch(patient: Batcher, echo: Echo, metrics: Metrics) -> None:
    """The first waits for three more: one pass reads them, each gets its own answer, and the figures say so."""
    prompts = ["a", "bcd", "efghij", "kl"]
    ears = [ask(patient, prompt)[1] for prompt in prompts]
    assert prompts == [ear.text() for ear in ears]
    assert echo.joins == [4]
    assert echo.steps == [4, 3, 2, 1, 1, 1]
    wait_until(lambda: not echo.rows)
    assert figure(metrics, 'windlass_deepspeed_requests_total{outcome="stop"}') == 4
    assert figure(metrics, "windlass_deepspeed_prompt_tokens_total") == 12
    assert figure(metrics, "windlass_deepspeed_generation_tokens_total") == 12 + 4
    above_one = figure(metrics, "windlass_deepspeed_batch_size_count") - figure(
        metrics, 'windlass_deepspeed_batch_size_bucket{le="1.0"}'
    )
    assert above_one > 0


def test_alone_a_request_is_answered_after_the_wait(batcher: Batcher, echo: Echo) -> None:
    """How long it waits is decided by `schedule`, which knows no clock."""
    assert ask(batcher, "a")[1].text() == "a"
    assert echo.joins == [1]


def test_a_request_joins_while_others_decode(batcher: Batcher, echo: Echo) -> None:
    """It does not wait for them to end."""
    echo.step_s = 0.002
    key, long = ask(batcher, "on and on…", max_tokens=ENDLESS)
    wait_until(lambda: len(echo.steps) > 3)
    assert ask(batcher, "short")[1].text() == "short"
    assert not long.over.is_set()
    batcher.cancel(key)
    wait_until(lambda: not echo.rows)


def test_cancel_frees_a_row_and_a_place_in_the_queue(batcher: Batcher, echo: Echo, metrics: Metrics) -> None:
    """A client that left costs no more passes."""
    echo.step_s = 0.002
    keys = [ask(batcher, "on…", max_tokens=ENDLESS)[0] for _ in range(5)]
    wait_until(lambda: len(echo.rows) == 4)
    batcher.cancel(keys[4])
    assert figure(metrics, "windlass_deepspeed_requests_waiting") == 0
    for key in keys[:4]:
        batcher.cancel(key)
    wait_until(lambda: not echo.rows)
    assert figure(metrics, 'windlass_deepspeed_requests_total{outcome="gone"}') == 5
    batcher.cancel(12345)
    assert ask(batcher, "still here")[1].text() == "still here"


def test_stop_words_and_limits_are_each_requests_own(batcher: Batcher) -> None:
    """Rows of one batch end for their own reasons."""
    ears = [
        ask(batcher, "one two three", stop=("two",))[1],
        ask(batcher, "one two three", max_tokens=5)[1],
        ask(batcher, "one two three")[1],
    ]
    assert [ear.text() for ear in ears] == ["one ", "one t", "one two three"]
    assert [ear.said[-1].finish_reason for ear in ears] == ["stop", "length", "stop"]


def test_a_broken_engine_ends_every_request_and_health(
    batcher: Batcher, echo: Echo, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody waits for ever; new requests are refused; the traceback is in the log."""
    echo.broken = True
    ears = [ask(batcher, "hello…")[1] for _ in range(6)]
    for ear in ears:
        ear.text()
        assert ear.error is not None
        assert ear.error.status == 503
    assert not batcher.healthy
    with pytest.raises(RequestError, match="the engine has stopped"):
        ask(batcher, "too late")
    assert "broken on purpose" in caplog.text


def test_closing_ends_what_is_left(batcher: Batcher, echo: Echo) -> None:
    """A server that stops tells its requests."""
    ear = ask(batcher, "on…", max_tokens=ENDLESS)[1]
    wait_until(lambda: echo.rows)
    batcher.close()
    assert ear.over.is_set()
    assert ear.error is not None


@settings(max_examples=20, deadline=None)
@given(
    prompts=st.lists(st.text("abcdef", min_size=1, max_size=12), min_size=1, max_size=12),
    size=st.integers(1, 5),
    wait_s=st.sampled_from([0.0, 0.005]),
)
def test_everybody_gets_their_own_answer(prompts: list[str], size: int, wait_s: float) -> None:
    """Any number of requests through any batch: no row is mixed up, lost, or above the limit."""
    echo = Echo()
    batcher = Batcher(echo, Letters().decode, frozenset({0}), Limits(size, wait_s), Metrics())
    batcher.start()
    try:
        ears = [ask(batcher, prompt)[1] for prompt in prompts]
        assert prompts == [ear.text() for ear in ears]
    finally:
        batcher.close()
    assert max([*echo.joins, *echo.steps]) <= size
    assert not echo.rows
