"""The lookahead cache: drafts the next tokens of a request from text that was seen before, on one CPU core.

    cache = LookaheadCache(Options(voc_size=131072))
    cache.begin("a", prompt_ids)
    [draft] = cache.propose(["a"], [6])     # draft.tokens, draft.probabilities
    cache.accept(["a"], [emitted_ids])      # what the model said
    cache.finish("a")

It imports no engine: adapters, the replay benchmark and tests all use it as it stands here.
"""

from windlass_lookahead.cache import Draft, LookaheadCache
from windlass_lookahead.errors import CacheFileError, InputError, LookaheadError, OptionError, UnknownRequestError
from windlass_lookahead.metrics import Metrics
from windlass_lookahead.options import Options, options_from_directory, options_from_mapping

__all__ = [
    "CacheFileError",
    "Draft",
    "InputError",
    "LookaheadCache",
    "LookaheadError",
    "Metrics",
    "OptionError",
    "Options",
    "UnknownRequestError",
    "options_from_directory",
    "options_from_mapping",
]
