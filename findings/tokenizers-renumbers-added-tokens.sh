#!/usr/bin/env bash
# Behaviour: every entry of added_tokens in tokenizer.json carries an "id", but loading the file does not use it to number a
#   token that the model's own vocabulary lacks. Such tokens get the next free numbers, in the order of the file. A gap
#   is closed: the ids 10 and 12 behind a vocabulary of four words become 4 and 5. Nothing is raised, and in Python
#   nothing is printed. transformers, which is told the same ids once more by added_tokens_decoder in
#   tokenizer_config.json, ends with the new numbers as well.
# Expected: the ids of the file, or an error that says which of them cannot be had.
# Why users care: a model knows a special token by its number alone. Whoever removes an unused token from the file, or
#   leaves room for a padded embedding, moves every later one: the prompt then holds other tokens than the model was
#   trained with, the end of a turn is no longer seen, and the text that comes out only gets worse. Saving the tokenizer
#   writes the new numbers down and loses the old ones.
# Seen with: tokenizers 0.23.3, transformers 5.24.0 (no torch is needed).
# Exits 1 when the behaviour is another one.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check tokenizers==0.23.3 transformers==5.24.0
cat > "$work/look.py" <<'PY'
import json
import pathlib
import sys
import tempfile

import tokenizers
import transformers

WORDS = {"a": 0, "b": 1, "c": 2, "[UNK]": 3}


def added(number, content):
    """An entry of added_tokens, as tokenizers itself writes one."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": number, "content": content, **flags}


def document(entries):
    """A tokenizer.json of four words that are parted by spaces."""
    rest = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    model = {"type": "WordLevel", "vocab": WORDS, "unk_token": "[UNK]"}
    return {"version": "1.0", **rest, "added_tokens": entries, "pre_tokenizer": {"type": "WhitespaceSplit"}, "model": model}


def look(title, entries, expected):
    """Whether the library gives the added tokens the expected numbers instead of the file's."""
    text = json.dumps(document(entries))
    tokenizer = tokenizers.Tokenizer.from_str(text)
    got = {entry["content"]: tokenizer.token_to_id(entry["content"]) for entry in entries}
    saved = {entry["content"]: entry["id"] for entry in json.loads(tokenizer.to_str())["added_tokens"]}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        path.joinpath("tokenizer.json").write_text(text)
        decoder = {str(entry["id"]): {k: v for k, v in entry.items() if k != "id"} for entry in entries}
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "added_tokens_decoder": decoder}
        path.joinpath("tokenizer_config.json").write_text(json.dumps(config))
        loaded = transformers.AutoTokenizer.from_pretrained(folder)
        other = {entry["content"]: loaded.convert_tokens_to_ids(entry["content"]) for entry in entries}
    print(title)
    print(f"  in the file:           { {entry['content']: entry['id'] for entry in entries} }")
    print(f"  tokenizers loads:      {got}")
    print(f"  tokenizers saves:      {saved}")
    print(f"  transformers loads:    {other}")
    return got == saved == other == expected


print(f"tokenizers {tokenizers.__version__}, transformers {transformers.__version__}")
results = [
    look("in a row behind the vocabulary", [added(4, "<eos>"), added(5, "<tool>")], {"<eos>": 4, "<tool>": 5}),
    look("with gaps", [added(10, "<eos>"), added(12, "<tool>")], {"<eos>": 4, "<tool>": 5}),
    look("one token taken out of a row", [added(5, "<tool>"), added(6, "<end>")], {"<tool>": 4, "<end>": 5}),
]
sys.exit(0 if all(results) else 1)
PY
"$work/venv/bin/python" "$work/look.py" || { echo "changed: an added token no longer gets the next free number"; exit 1; }
