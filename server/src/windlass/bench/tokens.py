"""Text to token ids without a download: the 131k vocabulary that mistral_common ships, a tokenizer.json, or pieces."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path

from windlass.errors import UsageError

Tokenizer = Callable[[str], list[int]]
TEKKEN = "tekken_240911.json"
PIECE = re.compile(r"\w+| ?[^\w\s]|\s+")


def tokenizer(name: str) -> Tokenizer:
    """The tokenizer called `tekken` or `pieces`, or the one in a tekken.json or tokenizer.json.

    Raises:
        UsageError: it is not there, or its package is not installed.
    """
    if name == "pieces":
        return pieces()
    if name == "tekken":
        return tekken(shipped())
    path = Path(name)
    if not path.is_file():
        raise UsageError(f'--tokenizer "{name}" is neither tekken, pieces nor a file.')
    return tekken(path) if "tekken" in path.name else hugging_face(path)


def shipped() -> Path:
    """The vocabulary inside the installed mistral_common; the package itself is not imported."""
    spec = importlib.util.find_spec("mistral_common")
    places = list(spec.submodule_search_locations or []) if spec else []
    for place in places:
        if (path := Path(place) / "data" / TEKKEN).exists():
            return path
    raise UsageError(
        "--tokenizer tekken needs mistral-common; install windlass-server[bench] or take --tokenizer pieces."
    )


def tekken(path: Path) -> Tokenizer:
    """Byte-pair encoding by a tekken.json; ids stand behind the special tokens."""
    try:
        import tiktoken
    except ImportError:
        raise UsageError("--tokenizer tekken needs tiktoken; install windlass-server[bench].") from None

    document = json.loads(path.read_text(encoding="utf-8"))
    config = document["config"]
    special = int(config["default_num_special_tokens"])
    words = document["vocab"][: int(config["default_vocab_size"]) - special]
    ranks = {base64.b64decode(word["token_bytes"]): word["rank"] for word in words}
    encoding = tiktoken.Encoding("tekken", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={})
    return lambda text: [special + token for token in encoding.encode_ordinary(text)]


def hugging_face(path: Path) -> Tokenizer:
    """The tokenizer of a tokenizer.json."""
    try:
        from tokenizers import Tokenizer as Encoder
    except ImportError:
        raise UsageError(f"--tokenizer {path} needs the package tokenizers.") from None

    encoder = Encoder.from_file(str(path))
    return lambda text: list(encoder.encode(text, add_special_tokens=False).ids)


def pieces() -> Tokenizer:
    """Words, signs and white space, numbered as they come: needs nothing, and ranks drafters alike."""
    numbers: dict[str, int] = {}
    return lambda text: [numbers.setdefault(piece, len(numbers)) for piece in PIECE.findall(text)]
