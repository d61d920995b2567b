#!/usr/bin/env bash
# Behaviour: xgrammar matches a string's "pattern" with the text between the quotation marks as it stands in the JSON, and
#   not with the value that this text means. A pattern for a Windows path makes the model write "C:\temp", which a JSON
#   parser reads as C:, a tab and emp; with another folder it is no JSON at all. The correct "C:\\temp" is refused. A
#   pattern that names a quotation mark makes it write one that ends the string. No warning is printed.
# Expected: JSON Schema applies a pattern to the string's value, so escapes are written where JSON asks for them.
# Why users care: the schema is correct, the request is accepted, and what the model must write then breaks the caller's
#   parser or, worse, is parsed as another value that does not even fulfil the schema.
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
path = look({"type": "string", "pattern": r"^[A-Z]:\\[a-z]+$"}, r'"C:\\temp"', r'"C:\temp"', r'"C:\data"')
quoted = look({"type": "string", "pattern": '^"[a-z]+"$'}, r'"\"hi\""', '""hi""')
plain = look({"type": "string", "pattern": "^[a-z]+$"}, '"hi"', '"HI"')
seen = path == [(True, False), (False, True), ("no JSON", True)] and quoted == [(True, False), ("no JSON", True)]
sys.exit(0 if seen and plain == [(True, True), (False, False)] else 1)
PY
"$work/venv/bin/python" "$work/look.py" || { echo "changed: a pattern is no longer matched with the text between the marks"; exit 1; }
