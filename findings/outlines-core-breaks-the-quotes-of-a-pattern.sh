#!/usr/bin/env bash
# Behaviour: outlines-core puts a string's "pattern" between two quotation marks as it is, without brackets around it. In a
#   pattern with alternatives, cat|dog, the marks then belong to the first and the last alternative: the expression
#   "cat|dog" matches an opening mark with cat, or dog with a closing mark. Neither is JSON, and "cat" is refused. With
#   anchors in each alternative, ^cat$|^dog$, only the first ^ and the last $ are taken off, and the same happens.
#   build_regex_from_schema raises nothing.
# Expected: the same values as with ^(cat|dog)$, which works.
# Why users care: alternatives are ordinary in a pattern (^$|^[0-9]+$ for "empty or a number"). The schema is correct, and
#   the model is forced to write a string without an end or a start, which no JSON parser takes. vLLM uses this function
#   when its engine for structured outputs is outlines.
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

TEXTS = ('"cat"', '"dog"', '"cat', 'dog"')


def fulfils(schema, text):
    """Whether the text is JSON that fulfils the schema."""
    try:
        return Draft202012Validator(schema).is_valid(json.loads(text))
    except json.JSONDecodeError:
        return "no JSON"


print(f"outlines-core {importlib.metadata.version('outlines-core')}")
seen = {}
for pattern in ("^(cat|dog)$", "cat|dog", "^cat$|^dog$"):
    schema = {"type": "string", "pattern": pattern}
    Draft202012Validator.check_schema(schema)
    expression = build_regex_from_schema(json.dumps(schema))
    print(f"  pattern {pattern} gives the expression {expression}")
    for text in TEXTS:
        matches = bool(re.fullmatch(expression, text))
        print(f"    {text}: fulfils the schema: {fulfils(schema, text)}, matches the expression: {matches}")
    seen[pattern] = [bool(re.fullmatch(expression, text)) for text in TEXTS]
sys.exit(0 if list(seen.values()) == [[True, True, False, False], [False, False, True, True], [False, False, True, True]] else 1)
PY
"$work/venv/bin/python" "$work/look.py" || { echo "changed: a pattern with alternatives is another expression now"; exit 1; }
