#!/usr/bin/env bash
# Behaviour: outlines-core turns a JSON schema into a regular expression, and puts the expressions of an allOf's branches
#   one behind the other. Two objects that a value shall be at once become two objects in a row, {"a": 1}{"b": 2}, which
#   is no JSON. A value that fulfils the schema is refused. Nothing is raised.
# Expected: an expression for values that fulfil all branches, or an error, as for the keywords that it does not support.
# Why users care: allOf is how a schema extends another one (OpenAPI generators and discriminated models write it). A
#   model whose tokens are chosen by this expression, as vLLM does when its engine for structured outputs is outlines,
#   is forced to write text that no JSON parser takes, each time. Reported to the project as its issue 259.
# Seen with: outlines-core 0.2.14; jsonschema 4.26.0 says what fulfils the schema.
# Exits 1 when the behaviour is another one.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check outlines-core==0.2.14 jsonschema==4.26.0
cat > "$work/look.py" <<'PY'
import importlib.metadata
import json
import re
import sys

from jsonschema import Draft202012Validator
from outlines_core.json_schema import build_regex_from_schema

BASE = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
MORE = {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}
SCHEMA = {"allOf": [{"$ref": "#/$defs/base"}, MORE], "$defs": {"base": BASE}}
Draft202012Validator.check_schema(SCHEMA)


def fulfils(text):
    """Whether the text is JSON that fulfils the schema."""
    try:
        return Draft202012Validator(SCHEMA).is_valid(json.loads(text))
    except json.JSONDecodeError:
        return "no JSON"


print(f"outlines-core {importlib.metadata.version('outlines-core')}")
expression = build_regex_from_schema(json.dumps(SCHEMA))
print(f"  schema: {json.dumps(SCHEMA)}\n  expression: {expression}")
seen = []
for text in ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', '{"a": 1}{"b": 2}'):
    matches = bool(re.fullmatch(expression, text))
    print(f"  {text}: fulfils the schema: {fulfils(text)}, matches the expression: {matches}")
    seen.append((fulfils(text), matches))
sys.exit(0 if seen == [(True, False), (True, False), ("no JSON", True)] else 1)
PY
"$work/venv/bin/python" "$work/look.py" || { echo "changed: the branches of an allOf are no longer joined"; exit 1; }
