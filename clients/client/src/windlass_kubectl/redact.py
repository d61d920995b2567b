"""Takes secrets out of objects and logs before anyone is shown them. Pure.

Three nets, one behind the other: values under names that sound secret, text that looks like a credential wherever it
stands, and the values of the first net again wherever else they turn up, a log line for example.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from windlass_sizing import engine_flags

GONE = "[redacted]"
NAMES = re.compile(
    r"(?i)(pass(word|wd|phrase)?$|passwd|secret|token|api[-_]?key|access[-_]?key|private[-_]?key|credential"
    r"|authorization|auth[-_]?header|cookie|(^|[-_])(key|keys|pwd|psk|salt|signature|dsn)$)"
)
# Names that hold a secret's address, or are about text units, and no secret.
HARMLESS = re.compile(
    r"(?i)^(secret(name|key|ref|keyref)?|tokenSecret|apiKeysSecret(Ref)?|tlsSecret(Ref)?|imagePullSecrets|pullSecrets|key"
    r"|.*tokens|tokens_.*|max[-_]?.*tokens?.*|tokenizer.*|.*tokenizer.*|serviceAccountToken|automountServiceAccountToken"
    r"|speculativeTokens|.*monkey|token_?ids?|optional)\Z"
)
DROPPED = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")
SHORTEST_KNOWN = 6  # a shorter value would be found everywhere

# A list, a quoted text (its quotes may be escaped, as in JSON inside JSON), or words without blanks: keys may be a list
# with commas.
QUOTED = r"""(?:\[[^\]\n]*\]?|"(?:\\.|[^"\\\n])*"?|\\+"[^"\n]*"|'[^'\n]*'|[^\s;&"'{}\[\])(\\][^\s;&"'}\])\\]*)"""
# Bounded, so that a line of a megabyte is read in one go.
CREDENTIAL = (
    r"(?:[A-Za-z0-9_.-]{0,64}(?:passwo?r?d|passwd|passphrase|secret|api[-_]?key|access[-_]?key|private[-_]?key"
    r"|credential)[A-Za-z0-9_.-]{0,64}|(?:[A-Za-z0-9_.-]{0,64}[-_.])?token|pwd|authorization|[A-Za-z0-9_]{1,64}_KEYS?)"
)
# Each pattern keeps its group 1, which says what stood there.
PATTERNS = (
    re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{4,}"),
    re.compile(r"(?i)(\b[a-z][a-z0-9+.-]{0,20}://)[^/\s@\"']+@"),
    re.compile(r"(?i)(\b(?:set-)?cookie[\"']?\s*[:=]\s*)[^\n]+"),
    re.compile(r"(?i)([?&](?:x-amz-|x-goog-|q-)?sig(?:nature)?=)[^&\s\"']+"),
    re.compile(rf"(?i)(\b{CREDENTIAL}\\*[\"']?\s*[:=]\s*){QUOTED}"),
    re.compile(rf"(?i)(--{CREDENTIAL}\s+){QUOTED}"),
    re.compile(r"()\beyJ[A-Za-z0-9_-]{8,2048}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?"),
    re.compile(r"()\b(?:sk|hf|pk|ghp|gho|glpat|ms|xox[abp])[-_][A-Za-z0-9_-]{8,}"),
    re.compile(r"()\b(?:AKIA|AKID|LTAI)[A-Za-z0-9]{12,}"),
)
FLAG = re.compile(rf"(?i)^--{CREDENTIAL}$")
Clean = Callable[[str], str]


def cleaner(known: Iterable[str]) -> Clean:
    """A function that takes credentials out of text; `known` are secrets that were met under their names."""
    values = sorted({value for value in known if len(value) >= SHORTEST_KNOWN}, key=lambda value: -len(value))
    exact = re.compile("|".join(map(re.escape, values))) if values else None

    def clean(text: str) -> str:
        text = exact.sub(GONE, text) if exact else text
        for pattern in PATTERNS:
            text = pattern.sub(_kept, text)
        return text

    return clean


def _kept(found: re.Match[str]) -> str:
    """What stood before the secret stays; a secret that is gone already is not marked twice."""
    rest = found[0][len(found[1]) :].strip("\"'")
    return found[0] if rest.startswith(GONE[:-1]) else f"{found[1]}{GONE}"


def is_secret_name(name: str) -> bool:
    """Whether a value under this name is a secret."""
    return bool(NAMES.search(name)) and not HARMLESS.match(name)


def _hides(mapping: Mapping[str, Any], key: str) -> bool:
    """Whether this entry is a secret's text; in a row of `env` the name stands beside the value."""
    if not isinstance(mapping[key], str):
        return False
    beside = mapping.get("name")
    return is_secret_name(beside if key == "value" and isinstance(beside, str) else str(key))


def secrets_in(value: object) -> set[str]:
    """The values that stand under secret names, in environment variables, fields, and flags."""
    if isinstance(value, Mapping):
        found = {part for key in value if _hides(value, key) for part in _parts(value[key])}
        return found.union(*(secrets_in(inner) for inner in value.values()))
    if isinstance(value, list):
        flags = {word for word, hidden in zip(value, _after_flags(value), strict=True) if hidden}
        found = {part for word in (*flags, *_assigned(value)) for part in _parts(word)}
        return found.union(*(secrets_in(inner) for inner in value))
    return set()


def _parts(text: str) -> set[str]:
    """The text, and each of the keys that it lists with commas or on lines: a log may repeat one alone."""
    return {part.strip() for part in (text, *re.split(r"[,\n]", text))} - {""}


def _assigned(words: list[Any]) -> set[str]:
    """The values of words like --api-key=…"""
    halves = [word.partition("=") for word in words if isinstance(word, str)]
    return {value for flag, _, value in halves if value and _is_secret_flag(flag)}


def _is_secret_flag(word: str) -> bool:
    """Whether a flag's value is a secret; the engine takes `--api-k` for `--api-key`."""
    return bool(FLAG.match(word) or FLAG.match(engine_flags.record().in_full(word)))


def _after_flags(words: list[Any]) -> list[bool]:
    """Which words are a secret flag's values: all up to the next flag, and the first whatever it begins with."""
    hidden, before, inside = [], "", False
    for word in words:
        text = word if isinstance(word, str) else ""
        first = _is_secret_flag(before)
        inside = bool(text) and (first or (inside and not text.startswith("-")))
        hidden.append(inside)
        before = text
    return hidden


def clean_object(value: Any, clean: Clean) -> Any:  # noqa: ANN401 - any JSON value
    """The value without secrets and without bookkeeping that repeats it."""
    if isinstance(value, Mapping):
        kept = [key for key in value if key not in DROPPED]
        return {key: GONE if _hides(value, key) else clean_object(value[key], clean) for key in kept}
    if isinstance(value, list):
        rows = zip(value, _after_flags(value), strict=True)
        return [GONE if hidden else clean_object(one, clean) for one, hidden in rows]
    return clean(value) if isinstance(value, str) else value
