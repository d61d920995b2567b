"""What the cache achieved, in the words of the log: of one request, or the average request of all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metrics:
    """Counts of verified iterations, and the rates made of them.

    num_iters: iterations; hit_iters: those with an accepted draft token; hit_len: accepted draft tokens;
    lookahead_len: drafted tokens.
    """

    num_iters: float = 0.0
    hit_iters: float = 0.0
    hit_len: float = 0.0
    lookahead_len: float = 0.0

    @property
    def invalid_len(self) -> float:
        """Drafted tokens that were not accepted."""
        return self.lookahead_len - self.hit_len

    @property
    def hit_rate(self) -> float:
        """Iterations with an accepted token, of all."""
        return ratio(self.hit_iters, self.num_iters)

    @property
    def global_average_hit_len(self) -> float:
        """Accepted tokens an iteration; decoding is at best 1 + this times as fast."""
        return ratio(self.hit_len, self.num_iters)

    @property
    def valid_average_hit_len(self) -> float:
        """Accepted tokens an iteration that had any."""
        return ratio(self.hit_len, self.hit_iters)

    @property
    def hit_valid_rate(self) -> float:
        """Accepted of drafted tokens."""
        return ratio(self.hit_len, self.lookahead_len)

    def per_request(self, requests: int) -> Metrics:
        """The average request's metrics."""
        counts = (self.num_iters, self.hit_iters, self.hit_len, self.lookahead_len)
        return Metrics(*(ratio(count, requests) for count in counts))

    def line(self) -> str:
        """The log line."""
        return ", ".join(f"{name}: {getattr(self, name):.4f}" for name in LINE)


LINE = (
    "num_iters",
    "hit_iters",
    "hit_len",
    "invalid_len",
    "hit_rate",
    "global_average_hit_len",
    "valid_average_hit_len",
    "hit_valid_rate",
)


def ratio(part: float, whole: float) -> float:
    """Part of whole; 0 of nothing."""
    return part / whole if whole else 0.0
