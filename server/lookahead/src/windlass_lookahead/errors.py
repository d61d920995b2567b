"""What can go wrong with the lookahead cache.

LookaheadError
├── OptionError          a configuration, or a warm-up file that it names, cannot be used: start is refused
├── CacheFileError       a cache file is damaged, foreign or unreadable: serve on with an empty cache
├── InputError           token ids outside the vocabulary, a request named twice in one batch: nothing was changed
└── UnknownRequestError  a request that never began, or has ended
"""

from __future__ import annotations


class LookaheadError(Exception):
    """The root; its text is a sentence for the user."""


class OptionError(LookaheadError):
    """A configuration or warm-up file that cannot be used."""


class CacheFileError(LookaheadError):
    """A cache file that cannot be read or written."""


class InputError(LookaheadError):
    """Token ids outside the vocabulary or no integers; a request twice in one batch."""


class UnknownRequestError(LookaheadError):
    """A request that is not active."""
