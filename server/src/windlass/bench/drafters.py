"""The drafters that are compared: ours, and the real code of vLLM and of arctic-inference where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from windlass_lookahead import Options

ROOM_TOKENS = 131_072  # longest sequence of a replay
ROW = "row"


class Drafter(Protocol):
    """One request at a time: start, then propose and update in turns, then stop."""

    def start(self, prompt: Sequence[int]) -> None:
        """Index the prompt."""
        ...

    def propose(self) -> Sequence[int]:
        """The draft after the last token."""
        ...

    def update(self, tokens: Sequence[int]) -> None:
        """Note the emitted tokens."""
        ...

    def stop(self) -> None:
        """End the request."""
        ...

    def memory_mib(self) -> float:
        """Memory in use."""
        ...


class Nothing:
    """Plain decoding."""

    def start(self, prompt: Sequence[int]) -> None:
        """Nothing to index."""

    def propose(self) -> Sequence[int]:
        """No draft."""
        return ()

    def update(self, tokens: Sequence[int]) -> None:
        """Nothing to note."""

    def stop(self) -> None:
        """Nothing to end."""

    def memory_mib(self) -> float:
        """No memory."""
        return 0.0


class Lookahead:
    """Our cache in one of its modes; copy_length follows the limit, so that K alone bounds a draft."""

    def __init__(self, options: Options, limit: int, mode: int) -> None:
        from windlass_lookahead import LookaheadCache

        self._cache = LookaheadCache(replace(options, cache_mode=mode, copy_length=limit))
        self._limit = [limit]
        self._row = [ROW]

    def start(self, prompt: Sequence[int]) -> None:
        """Index the prompt."""
        self._cache.begin(ROW, prompt)

    def propose(self) -> Sequence[int]:
        """The draft of the one row."""
        return self._cache.propose(self._row, self._limit)[0].tokens

    def update(self, tokens: Sequence[int]) -> None:
        """Note the emitted tokens."""
        self._cache.accept(self._row, [tokens])

    def stop(self) -> None:
        """Publish the request to later ones."""
        self._cache.finish(ROW)

    def memory_mib(self) -> float:
        """Shared cache and request."""
        return self._cache.memory_bytes / 2**20


class Context:
    """Prompt and output in one array, as the engine keeps them."""

    def __init__(self) -> None:
        self.tokens: NDArray[np.int32] = np.zeros((1, ROOM_TOKENS), dtype=np.int32)
        self.count = np.zeros(1, dtype=np.int32)

    def begin(self, prompt: Sequence[int]) -> None:
        """Forget the last request."""
        self.count[0] = 0
        self.extend(prompt)

    def extend(self, tokens: Sequence[int]) -> None:
        """Write behind the last token."""
        at = int(self.count[0])
        self.tokens[0, at : at + len(tokens)] = tokens
        self.count[0] = at + len(tokens)


class Ngram(Nothing):
    """vLLM's NgramProposer; `shortest`, `longest`: the n-grams that it looks up."""

    def __init__(self, limit: int, shortest: int, longest: int) -> None:
        from vllm.v1.spec_decode.ngram_proposer import NgramProposer

        self._limit = limit
        self._context = Context()
        speculative = SimpleNamespace(
            prompt_lookup_min=shortest, prompt_lookup_max=longest, num_speculative_tokens=limit
        )
        config = SimpleNamespace(
            speculative_config=speculative,
            model_config=SimpleNamespace(max_model_len=ROOM_TOKENS),
            scheduler_config=SimpleNamespace(max_num_seqs=1024),
            parallel_config=SimpleNamespace(tensor_parallel_size=1),
        )
        self._proposer: Any = NgramProposer(config)  # type: ignore[arg-type, unused-ignore]

    def start(self, prompt: Sequence[int]) -> None:
        """Write the prompt."""
        self._context.begin(prompt)

    def propose(self) -> Sequence[int]:
        """Its own batch of one; any sampled token says that the row decodes."""
        drafts = self._proposer.propose(self._limit, [[0]], self._context.count, self._context.tokens)
        return list(drafts[0])

    def update(self, tokens: Sequence[int]) -> None:
        """Write the emitted tokens."""
        self._context.extend(tokens)


class Suffix(Nothing):
    """Arctic's suffix decoding with the defaults that vLLM gives it."""

    DEPTH = 24
    REQUESTS = 10_000
    FACTOR = 1.0
    LEAST_PROBABILITY = 0.1

    def __init__(self, limit: int) -> None:
        from arctic_inference.suffix_decoding import SuffixDecodingCache

        self._limit = limit
        self._context = Context()
        self._request = 0
        self._cache: Any = SuffixDecodingCache(max_tree_depth=self.DEPTH, max_cached_requests=self.REQUESTS)

    def start(self, prompt: Sequence[int]) -> None:
        """A tree for the prompt."""
        self._request += 1
        self._context.begin(prompt)
        self._cache.start_request(self._request, np.asarray(prompt, dtype=np.int32))

    def propose(self) -> Sequence[int]:
        """Its speculation after the last tokens."""
        count = int(self._context.count[0])
        recent = self._context.tokens[0, max(0, count - self.DEPTH) : count]
        draft = self._cache.speculate(
            self._request,
            recent,
            max_spec_tokens=self._limit,
            max_spec_factor=self.FACTOR,
            min_token_prob=self.LEAST_PROBABILITY,
        )
        return list(draft.token_ids)

    def update(self, tokens: Sequence[int]) -> None:
        """Extend both trees."""
        self._context.extend(tokens)
        self._cache.add_active_response(self._request, np.asarray(tokens, dtype=np.int32))

    def stop(self) -> None:
        """Drop the prompt's tree."""
        self._cache.stop_request(self._request)

    def memory_mib(self) -> float:
        """What its global tree says of itself."""
        return float(self._cache._global_tree.estimate_memory()) / 2**20


MODES = {"raw": 0, "turbo": 1, "both": 2}
NAMES = (*MODES, "ngram", "suffix", "none")


def maker(name: str, limit: int, options: Options | None, ngram: tuple[int, int]) -> Callable[[], Drafter] | None:
    """What makes a fresh drafter of this name; None when its package is not installed."""
    try:
        if name in MODES:
            from windlass_lookahead import Options as Defaults

            return lambda: Lookahead(options or Defaults(), limit, MODES[name])
        if name == "ngram":
            import vllm.v1.spec_decode.ngram_proposer  # noqa: F401  only: is it there

            return lambda: Ngram(limit, *ngram)
        if name == "suffix":
            import arctic_inference.suffix_decoding  # noqa: F401

            return lambda: Suffix(limit)
    except ImportError:
        return None
    return Nothing
