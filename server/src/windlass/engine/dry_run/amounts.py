"""How much memory a dry run keeps free, and the line that says so. Pure; imports no engine."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 2**30
PIECES = "because torch cannot join free pieces of memory here (expandable_segments is off)"
FLOAT32_BYTES = 4
COPY_MAX = GIB
"""Of the copy in float32 that vLLM 0.32 makes of drafted rows at a time (`MAX_CHUNK_BYTES`)."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The full batch of a dry run, and the largest that requests can make."""

    requests: int
    drafts: int
    """Of each request."""
    requests_max: int
    tokens_max: int
    """Of one engine step."""

    @property
    def rows(self) -> int:
        """Rows of logits that the dry run sampled: a bonus token and the drafts of each request."""
        return self.requests * (1 + self.drafts)

    @property
    def rows_max(self) -> int:
        """Rows of logits that a step can sample at most."""
        return max(self.rows, min(self.requests_max * (1 + self.drafts), self.tokens_max))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Requests of each warm-up: a smaller batch may split the memory that the next full one needs whole."""
        smaller = self.requests * 3 // 4
        return (self.requests, smaller, self.requests) if smaller else (self.requests,)

    def largest(self, vocabulary: int, logit_bytes: int) -> int:
        """Bytes of the largest tensor of a step: all its logits, or their copy in float32."""
        logits = self.rows_max * vocabulary * logit_bytes
        copy = self.rows_max * vocabulary * FLOAT32_BYTES
        return max(logits, min(copy, COPY_MAX) if self.drafts else copy)


@dataclass(frozen=True, slots=True)
class Measured:
    """One dry run of one card, in bytes."""

    batch: Batch
    sampling: int
    """Of the full batch while it is verified and sampled; free afterwards."""
    forward: int
    """Of a step with as many tokens as one may have, its attention included; free afterwards."""
    profiled: int
    """What the engine's own profile keeps free for a step."""
    staying: int
    """What kernels, workspaces and buffers took for good since the profile."""
    graphs: int
    """The engine's estimate of its CUDA graphs."""
    graphs_counted: bool
    """Whether the engine has taken that estimate from the KV cache itself."""
    largest: int = 0
    """The largest tensor of a step, where torch cannot join free pieces of memory; 0 with expandable segments."""
    under_way: int = 1
    """Steps that the engine has under way; results of each may lie in the memory that its logits left."""

    @property
    def step(self) -> int:
        """Of the largest step; the batch counts as if it had all rows."""
        return max(self.forward, self.sampling * self.batch.rows_max // max(1, self.batch.rows))

    @property
    def step_kept(self) -> int:
        """What the largest step takes beyond the profile."""
        return max(0, self.step - self.profiled)

    @property
    def spare(self) -> int:
        """What free memory in pieces takes: the next logits find no room beside those of the steps under way."""
        return self.largest * self.under_way

    @property
    def kept(self) -> int:
        """What the KV cache does not get."""
        return self.step_kept + self.spare + max(0, self.staying) + (0 if self.graphs_counted else self.graphs)


def line(found: Measured) -> str:
    """One line for the log."""
    batch = found.batch
    drafts = f" with {batch.drafts} drafts each" if batch.drafts else ""
    graphs = "in the engine's own estimate" if found.graphs_counted else "kept too"
    spare = f"{_pieces(found)}, " if found.spare else ""
    return (
        f"conservative dry run: {_gib(found.kept)} GiB kept free beside the engine's own profile: "
        f"a step of {batch.requests:,} requests{drafts} {_gib(found.step_kept)} "
        f"({_gib(found.step)}, of which the profile has {_gib(found.profiled)}), "
        f"{spare}kernels and workspaces {_gib(max(0, found.staying))}; graphs {_gib(found.graphs)}, {graphs}"
    )


def _pieces(found: Measured) -> str:
    steps = "the step" if found.under_way == 1 else f"each of the {found.under_way} steps"
    return f"its largest tensor once more for {steps} under way {_gib(found.spare)}, {PIECES}"


def _gib(size: int) -> str:
    return f"{size / GIB:.2f}"
