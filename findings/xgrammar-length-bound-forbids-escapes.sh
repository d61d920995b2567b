#!/usr/bin/env bash
# Behaviour: with minLength or maxLength on a string, xgrammar's grammar has no escapes any more: no quotation mark, no line
#   break, no tab, no backslash can be written in it. Without a bound all of them can. No warning is printed.
# Expected: minLength and maxLength count the characters of the value, and say nothing about which ones it may hold.
# Why users care: a bound is on most string fields that come from a data model (minLength 1 for "not empty", maxLength for a
#   database column). A tool that takes code, a shell command or a message gets one line, and the first quotation mark
#   that the model writes ends it. The JSON is correct, so nothing downstream notices. Reported to the project as its
#   issue 800.
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
TEXTS = (r'"ab"', r'"a\nb"', r'"say \"hi\""', r'"C:\\tmp"')
free = look({"type": "string"}, *TEXTS)
least = look({"type": "string", "minLength": 1}, *TEXTS)
most = look({"type": "string", "maxLength": 1000}, *TEXTS)
bounded = [(True, True)] + [(True, False)] * 3
sys.exit(0 if (free, least, most) == ([(True, True)] * 4, bounded, bounded) else 1)
PY
"$work/venv/bin/python" "$work/look.py" || { echo "changed: a string with a bound on its length is another grammar now"; exit 1; }
