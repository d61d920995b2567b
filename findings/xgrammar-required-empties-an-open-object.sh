#!/usr/bin/env bash
# Behaviour: {"type": "object"} lets a model write any object. With "required": ["name"] added, and "name" not described under
#   "properties", xgrammar's grammar allows one text alone: {}. That is the object that the schema forbids, and every
#   object that fulfils it is refused. With "additionalProperties": true as well, other objects are allowed again, but
#   "required" has no effect. No warning is printed.
# Expected: an object with a name. The documentation of strict_mode (on by default) says that properties that the schema does
#   not specify are not allowed, so one may also expect an error: under that rule nothing fulfils the schema. It does not
#   explain {}, nor why the object without "required" is left open.
# Why users care: tools often describe a free-form argument (labels, headers, a filter) by a few required names. The call
#   comes with {} each time, whatever the prompt says, and it looks as if the model could not do better.
#   Told to the project in its issue 104.
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
TEXTS = ("{}", '{"name": "a"}', '{"size": 1}')
bare = look({"type": "object"}, *TEXTS)
required = look({"type": "object", "required": ["name"]}, *TEXTS)
opened = look({"type": "object", "required": ["name"], "additionalProperties": True}, *TEXTS)
seen = bare == [(True, True)] * 3 and required == [(False, True), (True, False), (False, False)]
sys.exit(0 if seen and opened == [(False, True), (True, True), (False, True)] else 1)
PY
"$work/venv/bin/python" "$work/look.py" || { echo "changed: required does something else in an object without properties"; exit 1; }
