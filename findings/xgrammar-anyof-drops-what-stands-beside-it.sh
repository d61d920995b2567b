#!/usr/bin/env bash
# Behaviour: where a schema has anyOf, xgrammar's grammar is made of its branches alone, and "type", "properties" and
#   "required" beside it are dropped. An object of which one of two properties is needed becomes anything at all: 3, a
#   string, an object with other properties. "required" beside a $ref is dropped in the same way. No warning is printed.
# Expected: JSON Schema (draft 2019-09 and later) applies all keywords of a schema; or an error for what is not supported.
# Why users care: "at least one of these fields" is written as an anyOf of "required" lists next to the properties. Such a
#   tool's arguments are then not bound to its schema, though the request asked for that and was accepted: a number where
#   an object is due breaks the caller, and an invented property name is taken for a real one.
#   Reported to the project as its issue 858.
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
PROPERTIES = {"city": {"type": "string"}, "zip": {"type": "integer"}}
OBJECT = {"type": "object", "properties": PROPERTIES, "additionalProperties": False}
TEXTS = ('{"city": "Bonn"}', '{"planet": []}', "3", '"Bonn"')
alone = look(OBJECT, *TEXTS)
either = look({**OBJECT, "anyOf": [{"required": ["city"]}, {"required": ["zip"]}]}, *TEXTS)
place = {"type": "object", "properties": {"city": {"type": "string"}}}
beside = look({"$ref": "#/$defs/place", "required": ["city"], "$defs": {"place": place}}, '{"city": "Bonn"}', "{}")
seen = alone == [(True, True)] + [(False, False)] * 3 and either == [(True, True)] + [(False, True)] * 3
sys.exit(0 if seen and beside == [(True, True), (False, True)] else 1)
PY
"$work/venv/bin/python" "$work/look.py" || { echo "changed: what stands beside anyOf or $ref counts now"; exit 1; }
