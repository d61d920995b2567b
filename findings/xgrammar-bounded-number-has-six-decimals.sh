#!/usr/bin/env bash
# Behaviour: with a bound on a number ("minimum": 0), xgrammar's grammar allows six digits behind the point and no exponent.
#   0.0000001 and 1e-7 cannot be written, though an unbounded number takes both. A range that lies below a millionth
#   compiles as well, to the empty text: {"rate": } is all that may be written, which is no JSON. No warning is printed.
# Expected: a bound says how large a number may be, not how it is written; and an error for a range that cannot be met.
# Why users care: a tool with a learning rate, a tolerance or a concentration, and "minimum": 0 to keep it from being
#   negative, silently gets another number: a model that means 1e-7 starts with 0.00000 and must go on with a digit that it
#   did not mean, so the value is ten times too large or more. A coordinate with seven decimals is cut.
# Seen with: xgrammar 0.2.9; jsonschema 4.26.0 says what fulfils the schema.
# Exits 1 when the behaviour is another one. (xgrammar needs torch, which is most of the time and of the 5 GiB of disk.)
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-compile \
  xgrammar==0.2.9 apache-tvm-ffi==0.1.15.post2 torch==2.13.0 transformers==5.24.0 numpy==2.4.6 jsonschema==4.26.0
cat > "$work/look.py" <<'PY'
import importlib.metadata
import json
import sys

import xgrammar
from jsonschema import Draft202012Validator

END = 256
INFO = xgrammar.TokenizerInfo([bytes([i]) for i in range(END)] + [b"</s>"], vocab_size=END + 1, stop_token_ids=[END])


def fulfils(schema, text):
    """Whether the text is JSON that fulfils the schema."""
    try:
        return Draft202012Validator(schema).is_valid(json.loads(text))
    except json.JSONDecodeError:
        return "no JSON"


def allows(schema, text):
    """Whether the grammar of the schema lets a model write the text, byte by byte, and stop."""
    Draft202012Validator.check_schema(schema)
    compiled = xgrammar.GrammarCompiler(INFO).compile_json_schema(json.dumps(schema))
    matcher = xgrammar.GrammarMatcher(compiled)
    return all(matcher.accept_token(token) for token in [*text.encode(), END])


def look(schema, *texts):
    """Print and return what JSON Schema and the grammar say of each text."""
    print(f"  {json.dumps(schema)}")
    answers = [(fulfils(schema, text), allows(schema, text)) for text in texts]
    for text, (valid, allowed) in zip(texts, answers):
        print(f"    {text}: fulfils the schema: {valid}, the grammar allows it: {allowed}")
    return answers


print(f"xgrammar {importlib.metadata.version('xgrammar')}")
TEXTS = ("0.5", "0.000001", "0.0000001", "1e-7", "51.1234567")
free = look({"type": "number"}, *TEXTS)
least = look({"type": "number", "minimum": 0}, *TEXTS)
SMALL = {"type": "number", "exclusiveMinimum": 0, "maximum": 1e-7}
small = look({"type": "object", "properties": {"rate": SMALL}, "required": ["rate"]}, '{"rate": 1e-8}', '{"rate": }')
seen = free == [(True, True)] * 5 and least == [(True, True)] * 2 + [(True, False)] * 3
sys.exit(0 if seen and small == [(True, False), ("no JSON", True)] else 1)
PY
"$work/venv/bin/python" "$work/look.py" || { echo "changed: a number with a bound is another grammar now"; exit 1; }
