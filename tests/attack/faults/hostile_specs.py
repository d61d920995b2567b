"""Random and hostile specs, drawn from the CRD's schema, so that a new field is drawn the day it is added.

What is drawn here the API server takes: within every bound and rule, and as strange as they allow. `hostile_wrongs.py`
breaks one rule of such a spec on purpose.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

CRD_FILE = Path(__file__).parents[3] / "crds" / "llmservices.serving.windlass.dev.yaml"
WORDS = (
    "..", "/", "\x00", "'; DROP TABLE pods; --", "$(reboot)", "{{ .Values }}", "-", "0", "true", "null", "~", "a" * 300,
    "ünï©ödé", "\u202e", "*", "&x", "!!python/object", "../../etc/passwd", "/etc/passwd", "http://[::1]:99999/",
    "--flag", "a\nb", " ", "\U0001f600", "%s%n",
    "NaN", "1e400", "İ", "ﬁ",
    "A", "a.b", "a_b", "a" * 63, "demo", "Qwen/Qwen2-7B-Instruct", "no/such:model@1", "L20", "NVIDIA-L20", "/models",
    "http://127.0.0.1:1", "https://h/x?y=z", "run", "serve", "--model=", "x.example.com", "*.example.com", "",
)  # fmt: skip
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.sampled_from(WORDS) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS[:12]), inner, max_size=3),
    max_leaves=8,
)
QUANTITIES = (
    0,
    1,
    "1",
    "1Gi",
    "100m",
    "0",
    "0.5",
    "0.0001m",
    "9999999Ei",
    "1E",
    "00012",
    "3.14159Ki",
    2**31 - 1,
    "64Mi",
)
MANY_ONE_IN = 25  # lists as long as they may be
Schema = Mapping[str, Any]
Spec = dict[str, Any]


@cache
def spec_schema() -> Schema:
    """The schema of `spec`."""
    crd = yaml.safe_load(CRD_FILE.read_text())
    schema: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


def rules(schema: Schema) -> list[str]:
    """The CEL rules that stand at this very place."""
    return [str(row["rule"]) for row in schema.get("x-kubernetes-validations", ())]


def legal(schema: Schema, text: str) -> bool:
    """Whether the API server takes the text here."""
    if not schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", 1024):
        return False
    return (re.search(_go(schema.get("pattern", "")), text) is not None) and all(
        keeps(rule, text) for rule in rules(schema)
    )


def keeps(rule: str, text: str) -> bool:
    """The few forms of CEL that our rules for texts have; a rule of another form must be taught here."""
    for form, holds in FORMS:
        if found := re.fullmatch(form, rule):
            return holds(found, text)
    raise ValueError(f"the CRD has a rule for a text that draws cannot read: {rule}")


def _has(found: re.Match[str], text: str) -> bool:
    return re.search(_go(found[1]), text) is not None


FORMS: tuple[tuple[str, Callable[[re.Match[str], str], bool]], ...] = (
    (r"self == '' \|\| (.*)", lambda found, text: not text or keeps(found[1], text)),
    (r"!self\.startsWith\('/'\) \|\| (.*)", lambda found, text: not text.startswith("/") or keeps(found[1], text)),
    (r"!\((.*)\)", lambda found, text: not keeps(found[1], text)),
    (r"!(self\.matches\('.*'\))", lambda found, text: not keeps(found[1], text)),
    (
        r"self\.matches\('(.*)'\) && !self\.contains\('\.\.'\)",
        lambda found, text: _has(found, text) and ".." not in text,
    ),
    (r"self\.matches\('(.*)'\)", _has),
    (r"self in (\[.*\])", lambda found, text: text in ast.literal_eval(found[1])),
    (
        r"self\.split\('/'\)\[1\] in (\[.*\])",
        lambda found, text: [*text.split("/"), ""][1] in ast.literal_eval(found[1]),
    ),
    (r"!self\.split\('/'\)\.exists\(part, part == '\.\.'\)", lambda _, text: ".." not in text.split("/")),
    (r"!self\.startsWith\('(.*)'\)", lambda found, text: not text.startswith(found[1])),
)
"""A rule's whole text as a pattern, and whether a text keeps it."""


def _go(pattern: str) -> str:
    """In Go a final $ is the end of the text, in Python also the line before it; \\s and \\S mean ASCII."""
    return "(?a)" + re.sub(r"\$$", r"\\Z", pattern)


def values(schema: Schema) -> st.SearchStrategy[Any]:
    """What the schema and its rules for single values allow."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        known = [value for value in QUANTITIES if isinstance(value, int) or legal(schema, value)]
        drawn = st.from_regex(_short(schema["pattern"]), fullmatch=True).filter(partial(legal, schema))
        return st.sampled_from(known) | drawn
    return TYPES[schema.get("type", "object")](schema)


def _object(schema: Schema) -> st.SearchStrategy[Any]:
    if "properties" not in schema:
        most = schema.get("maxProperties", 32)
        keys = st.sampled_from(("a", "b.c/d", "x" * 70, "ü", "", "serving.windlass.dev/service", "app", "a/b/c"))
        some = st.dictionaries(keys, values(schema["additionalProperties"]), max_size=2)
        one = values(schema["additionalProperties"])
        many = one.map(lambda value: {f"k{index}": value for index in range(most)})
        return st.integers(0, MANY_ONE_IN).flatmap(lambda dice: many if dice == 7 else some)
    rows, required = schema["properties"], schema.get("required", ())
    drawn = {key: values(row) for key, row in rows.items()}
    return st.fixed_dictionaries(
        {key: drawn[key] for key in required}, optional={key: drawn[key] for key in rows if key not in required}
    )


def _string(schema: Schema) -> st.SearchStrategy[Any]:
    longest = schema.get("maxLength", 64)
    patterns = (
        [schema["pattern"]]
        if "pattern" in schema
        else re.findall(r"^self\.matches\('(.*?)'\)", "\n".join(rules(schema)))
    )
    names = re.findall(r"^self in (\[.*?\])", "\n".join(rules(schema)))
    if names:
        return st.sampled_from(ast.literal_eval(names[0]))
    plain = st.text(
        "abcdefghijklmnopqrstuvwxyz0123456789-./", min_size=schema.get("minLength", 0), max_size=min(longest, 40)
    )
    usual = st.from_regex(_short(patterns[0]), fullmatch=True) if patterns else plain
    words = [text for text in WORDS if legal(schema, text)]
    choices = [
        usual,
        usual.map(lambda text: (text + "a" * longest)[:longest]),
        *([st.sampled_from(words)] if words else []),
    ]
    return st.sampled_from((0, 0, 0, 1, -1, -1)).flatmap(lambda dice: choices[dice]).filter(partial(legal, schema))


def _short(pattern: str) -> str:
    """The pattern with repetitions that end."""
    return re.sub(r"(?<!\\)\*(?!\])", "{0,8}", pattern.replace("[*]", "[\\*]")).replace("[\\*]", "[*]")


def _integer(schema: Schema) -> st.SearchStrategy[Any]:
    low, high = schema.get("minimum", -(2**31)), schema.get("maximum", 2**31 - 1)
    small = st.integers(low, min(high, low + 8))
    return small | small | st.sampled_from((low, high)) | st.integers(low, high)


def _array(schema: Schema) -> st.SearchStrategy[Any]:
    low, most = schema.get("minItems", 0), schema.get("maxItems", 3)
    key = next(iter(schema.get("x-kubernetes-list-map-keys", ())), None)
    few = st.lists(values(schema["items"]), min_size=low, max_size=max(low, min(most, 3)))

    def long(dice: int) -> st.SearchStrategy[Any]:
        return few if dice != 7 else few.filter(bool).map(lambda rows: _many(rows, most, key))

    return st.integers(0, MANY_ONE_IN).flatmap(long).map(lambda rows: _by_key(rows, key) if key else rows)


def _many(rows: list[Any], most: int, key: str | None) -> list[Any]:
    """As many as there may be, the drawn ones again and again; names told apart, texts short."""
    again = itertools.islice(itertools.cycle(rows), most)
    return [_numbered(row, index, key) for index, row in enumerate(again)]


def _numbered(row: Any, index: int, key: str | None) -> Any:
    if isinstance(row, str):
        return row[:512]
    return {**row, key: f"{row[key][:40]}{index}"} if key else row


def _by_key(rows: list[Any], key: str) -> list[Any]:
    return list({row[key]: row for row in rows}.values())


TYPES: Mapping[str, Callable[[Schema], st.SearchStrategy[Any]]] = {
    "object": _object, "string": _string, "integer": _integer, "array": _array, "boolean": lambda _: st.booleans(),
}  # fmt: skip
