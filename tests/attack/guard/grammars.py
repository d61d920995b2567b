"""Requests that make an engine compile, render or match for ever: grammars, schemas, patterns, templates.

`python tests/attack/guard/grammars.py URL --key KEY [--patience S]` asks each against a running server and prints what
it took, what /health did meanwhile, and how long a plain request and a small grammar of somebody else took after it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # run as a program, and imported by tests of other folders

from attacks import CHAT, Figures, Target, watching

LOOP = "".join(f"{{% for {name} in range(99999) %}}" for name in "abc") + "{% endfor %}" * 3
BIG = "{% set x = namespace(s='x') %}{% for i in range(60) %}{% set x.s = x.s ~ x.s %}{% endfor %}{{ x.s }}"


def nested(depth: int, times: int) -> str:
    """A pattern whose repetitions multiply."""
    pattern = "a"
    for _ in range(depth):
        pattern = f"({pattern}){{0,{times}}}"
    return pattern


def references(count: int) -> dict[str, Any]:
    """A schema where each definition holds the next one twice."""
    names = [f"d{at}" for at in range(count)]
    made: dict[str, Any] = {
        name: {"type": "object", "properties": {"a": {"$ref": f"#/$defs/{after}"}, "b": {"$ref": f"#/$defs/{after}"}}}
        for name, after in pairwise(names)
    }
    return {"$defs": made | {names[-1]: {"type": "string"}}, "$ref": "#/$defs/d0"}


def doubling(count: int) -> str:
    """A grammar where each rule is the next one twice."""
    return "root ::= r0\n" + "".join(f"r{at} ::= r{at + 1} r{at + 1}\n" for at in range(count)) + f'r{count} ::= "a"'


def many(count: int) -> dict[str, Any]:
    """A schema with so many optional properties."""
    return {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(count)}}


def bound(kind: str, value: object) -> dict[str, Any]:
    """The field that binds an answer."""
    return {"structured_outputs": {kind: value}}


CASES: dict[str, dict[str, Any]] = {
    "regex, repetitions multiply": bound("regex", nested(3, 1000)),
    "regex, 10 deep": bound("regex", nested(10, 9)),
    "regex, ambiguous": bound("regex", "(a|a|aa)*" * 60 + "b"),
    "regex, classes": bound("regex", r"([\w\W]{1,200}[\d\D]{1,200}){1,200}"),
    "regex, 60,000 alternatives": bound("regex", "|".join(f"w{at}" for at in range(20_000))),
    "json, items": bound("json", {"type": "array", "items": {"type": "string"}, "minItems": 100_000}),
    "json, items of items": bound("json", {"type": "array", "minItems": 900, "items": {"type": "array", "minItems": 900,
                                           "items": {"type": "array", "minItems": 900, "items": {"type": "integer"}}}}),
    "json, length": bound("json", {"type": "string", "minLength": 90_000, "maxLength": 100_000}),
    "json, references": bound("json", references(40)),
    "json, 5,000 properties": bound("json", many(5_000)),
    "json, integers": bound("json", {"type": "integer", "minimum": -(10**18), "maximum": 10**18}),
    "json, 20,000 words": bound("json", {"enum": [f"w{at}" for at in range(20_000)]}),
    "json, alternatives": bound("json", {"anyOf": [many(200)] * 200}),
    "choice": bound("choice", [f"choice number {at}" for at in range(20_000)]),
    "grammar, ambiguous": bound("grammar", 'root ::= s\ns ::= s s | "a" | ""'),
    "grammar, left": bound("grammar", "root ::= " + "(" * 500 + '"a"' + ")*" * 500),
    "grammar, doubling": bound("grammar", doubling(60)),
    "tools, 2,000": {"tools": [{"type": "function", "function": {"name": f"f{at}", "parameters": many(9)}}
                               for at in range(2_000)], "tool_choice": "required"},
    "template, loop": {"chat_template": LOOP},
    "template, doubling": {"chat_template": BIG},
    "template in its own words": {"chat_template_kwargs": {"chat_template": LOOP}},
    "stops": {"stop": ["a" * 1000] * 10_000},
    "bad words": {"bad_words": [f"w{at}" for at in range(10_000)]},
    "bias": {"logit_bias": {str(at): 1 for at in range(20_000)}},
    "prompt of one word": {"messages": [{"role": "user", "content": "a" * 30 * 2**20}]},
    "prompt of blanks": {"messages": [{"role": "user", "content": " " * 7 * 2**20}]},
    "empty messages": {"messages": [{}] * 30_000},
    "wrong messages": {"messages": [{"role": "user", "content": [{"type": "nope"}] * 50}] * 600},
    "wrong tools": {"tools": [{"type": "function"}] * 15_000},
}  # fmt: skip


def hard(target: Target, other: Target, more: dict[str, Any], patience_s: float) -> Figures:
    """One of them, and what it did to others."""
    body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4} | more
    began = time.monotonic()
    with watching(target) as watch:
        status, text = _ask(target, body, patience_s)
    took_s = time.monotonic() - began
    plain_s = _timed(other, {}, patience_s)
    small_s = _timed(
        other, bound("json", {"type": "object", "properties": {f"x{time.time_ns()}": {"type": "null"}}}), patience_s
    )
    figures: Figures = {"status": status, "s": round(took_s, 2)} | watch.figures
    return figures | {"plain_after_s": plain_s, "grammar_after_s": small_s, "said": text[:160]}


def _ask(target: Target, body: dict[str, Any], patience_s: float) -> tuple[int, str]:
    try:
        answer = target.ask("POST", CHAT, json.dumps(body).encode(), timeout_s=patience_s)
    except OSError as error:
        return 0, repr(error)
    return answer.status, answer.text if answer.status != 200 else ""


def _timed(target: Target, more: dict[str, Any], patience_s: float) -> float:
    began = time.monotonic()
    status, _ = _ask(target, {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2} | more, patience_s)
    return round(time.monotonic() - began, 2) if status == 200 else -float(status or 1)


def main() -> None:
    """Ask each that is named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--key", default="")
    parser.add_argument("--other", default="")
    parser.add_argument("--pid", type=int, default=0)
    parser.add_argument("--patience", type=float, default=60)
    words = parser.parse_args()
    target, other = Target(words.url, words.key, words.pid), Target(words.url, words.other or words.key)
    for name, more in CASES.items():
        if not words.names or name in words.names:
            print(f"{name}: {json.dumps(hard(target, other, more, words.patience))}", flush=True)


if __name__ == "__main__":
    main()
