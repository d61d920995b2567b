"""The cache as Python sees it: the native core, with errors as sentences, the warm-up file and the log line.

A row of a batch is named by its request id, so a draft can never reach another row. The same calls in the same order
give the same drafts, whatever the number of threads.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from windlass_lookahead._core import Core
from windlass_lookahead.errors import CacheFileError, InputError, LookaheadError, OptionError, UnknownRequestError
from windlass_lookahead.metrics import Metrics
from windlass_lookahead.options import Options

logger = logging.getLogger("windlass.lookahead")

TokenIds = object  # integers in a row: a list, or a one-dimensional int32 or int64 array; the core checks them


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens to verify; `probabilities[i]` is that of tokens 0…i all being accepted. Both may be empty."""

    tokens: list[int]
    probabilities: list[float]


class LookaheadCache:
    """Drafts for many requests from their own text and that of ended ones. Every method may be called by any thread."""

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self._core = Core(self.options.as_mapping())
        self._logged = 0
        if self.options.warmup_file:
            self.warm_up(Path(self.options.warmup_file))

    def begin(self, request_id: str, prompt: TokenIds) -> None:
        """Start a request with its prompt; an id that is in use starts anew.

        Raises:
            InputError: an id is outside the vocabulary.
        """
        with sentences():
            self._core.begin(request_id, prompt)

    def propose(self, request_ids: Sequence[str], most: Sequence[int], min_gain: float | None = None) -> list[Draft]:
        """One draft a request, of at most `most[i]` tokens, all together within target_parallelism.

        Args:
            request_ids: the rows of the batch; each id once.
            most: the engine's limit of each row, in tokens.
            min_gain: least probability for which a token is drafted, in place of the option; 1 drafts next to nothing.

        Raises:
            UnknownRequestError: an id never began; no row was drafted.
        """
        with sentences():
            rows = self._core.propose(list(request_ids), list(most), -1.0 if min_gain is None else min_gain)
        return [Draft(tokens, probabilities) for tokens, probabilities in rows]

    def accept(self, request_ids: Sequence[str], tokens: Sequence[TokenIds]) -> None:
        """Note what the model emitted for each row: the accepted drafts and the token after them.

        Raises:
            UnknownRequestError, InputError: nothing was noted.
        """
        with sentences():
            self._core.accept(list(request_ids), list(tokens))
        self.log_if_due()

    def finish(self, request_id: str) -> None:
        """End a request, finished or cancelled; its text serves later ones. An unknown id is no error."""
        self._core.finish(request_id)

    def warm_up(self, path: Path) -> int:
        """Teach the exchanges of a warm-up file; returns how many.

        Raises:
            OptionError: the file is absent or is not `[{"prompt": [ids], "output": [ids]}]`.
        """
        for number, (prompt, output) in enumerate(exchanges := list(read_exchanges(path))):
            try:
                self.teach(prompt, output)
            except InputError as error:
                raise OptionError(f"warm-up file {path}, exchange {number}: {error}") from None
        return len(exchanges)

    def teach(self, prompt: TokenIds, output: TokenIds) -> None:
        """Add a recorded exchange to the shared cache."""
        with sentences():
            self._core.teach(prompt, output)

    def save(self, path: Path, tokenizer_hash: str) -> None:
        """Write the shared cache to a file for tokens of this tokenizer."""
        with sentences():
            self._core.save(str(path), tokenizer_hash)

    def load(self, path: Path, tokenizer_hash: str) -> None:
        """Replace the shared cache by a file's.

        Raises:
            CacheFileError: the file is damaged or belongs to another tokenizer or size; the cache is as before.
        """
        with sentences():
            self._core.load(str(path), tokenizer_hash)

    def knows(self, request_id: str) -> bool:
        """Whether the request is active."""
        return self._core.knows(request_id)

    def metrics(self, request_id: str | None = None) -> Metrics:
        """The counts of one active request, or of all requests together."""
        with sentences():
            return Metrics(*(self._core.totals() if request_id is None else self._core.counts(request_id)))

    @property
    def native(self) -> Core:
        """The core itself, for what works on it without the interpreter."""
        return self._core

    @property
    def requests_seen(self) -> int:
        """Requests that began since the start."""
        return self._core.requests_seen

    @property
    def requests_ended(self) -> int:
        """Requests that ended since the start; none counts that ended after the call began."""
        return self.requests_seen - self._core.active

    @property
    def active(self) -> int:
        """Requests that have not ended."""
        return self._core.active

    @property
    def entries(self) -> int:
        """(context, next token) pairs in the shared cache."""
        return self._core.entries

    @property
    def memory_bytes(self) -> int:
        """Memory of the shared cache and of all active requests."""
        return self._core.bytes

    def log_if_due(self) -> None:
        """With is_debug, the log line when log_interval iterations have passed since the last."""
        if not self.options.is_debug:
            return
        totals = self.metrics()
        if totals.num_iters - self._logged >= self.options.log_interval:
            self._logged = int(totals.num_iters)
            logger.info("%s", totals.per_request(self.requests_seen).line())


def tokenizer_hash(vocabulary: Mapping[str, int] | Path) -> str:
    """What a cache file is bound to: the sha256 of a tokenizer file, or of a vocabulary."""
    if isinstance(vocabulary, Path):
        return hashlib.sha256(vocabulary.read_bytes()).hexdigest()
    return hashlib.sha256(json.dumps(sorted(vocabulary.items())).encode()).hexdigest()


def read_exchanges(path: Path) -> Iterator[tuple[list[int], list[int]]]:
    """The (prompt, output) pairs of a warm-up file."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"warm-up file {path} is not readable JSON ({error}).") from None
    if not isinstance(rows, list):
        raise OptionError(f'warm-up file {path} must hold a list of {{"prompt": [ids], "output": [ids]}}.')
    for number, row in enumerate(rows):
        if not isinstance(row, dict) or not all(isinstance(row.get(key), list) for key in ("prompt", "output")):
            raise OptionError(
                f'warm-up file {path}, exchange {number}: needs "prompt" and "output", each a list of ids.'
            )
        yield row["prompt"], row["output"]


@contextmanager
def sentences() -> Iterator[None]:
    """Turn the core's exceptions into ours."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise InputError(str(error)) from None
    except IndexError as error:
        raise UnknownRequestError(str(error)) from None
    except RuntimeError as error:
        raise CacheFileError(str(error)) from None
    except MemoryError:
        raise LookaheadError("not enough memory for the lookahead cache; lower cache_size.") from None
