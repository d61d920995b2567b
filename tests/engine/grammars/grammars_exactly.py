"""Runs inside the serving image: every order of requests to a manager of grammars that has answered nobody yet.

Usage: grammars_exactly.py MODEL     Prints the outcome of each order as a line of JSON behind RESULT.

A request names its constraint; its outcome is the grammar engine, whether it takes a right text whole and refuses a
wrong one, and whether it fills a row of the step's mask. A refusal is its message.
"""

import json
import os
import sys
from itertools import permutations
from types import SimpleNamespace

os.environ |= {"VLLM_LOGGING_LEVEL": "CRITICAL"}

from vllm.config import ModelConfig, StructuredOutputsConfig
from vllm.exceptions import VLLMValidationError
from vllm.plugins import load_general_plugins
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
TOOL = {
    "type": "structural_tag",
    "format": {
        "type": "tag",
        "begin": "<tool_call>",
        "content": {"type": "json_schema", "json_schema": PERSON},
        "end": "</tool_call>",
    },
}
ALL_OF = {"allOf": [{"type": "integer", "minimum": 4}, {"type": "integer", "maximum": 4}]}
DRAFT_4 = {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 3}
KEPT = {
    "tool call": ({"structural_tag": json.dumps(TOOL)}, '<tool_call>{"name": "a"}</tool_call>', "<tool_call>{1"),
    "object": ({"json": PERSON}, '{"name": "a"}', '{"age": 1}'),
    "fractional bound": ({"json": {"type": "integer", "minimum": 0.5, "maximum": 3}}, "1", "5"),
    "all of": ({"json": ALL_OF}, "4", "5"),
    "draft 4": ({"json": DRAFT_4}, "1", "0"),
    "multiple": ({"json": {"type": "integer", "multipleOf": 7, "minimum": 1, "maximum": 20}}, "14", "15"),
    "choice": ({"choice": ["yes", "no"]}, "yes", "maybe"),
    "regex": ({"regex": "[0-9]{3}"}, "123", "12a"),
    "any object": ({"json_object": True}, '{"a": [1]}', "[1]"),
}
"""Constraint, a text that keeps it and one that does not."""
REFUSED = {"unique items": {"json": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}}}
FIRST = ("tool call", "fractional bound", "regex")
"""Asked first in every order: the rest follows as it stands."""


def manager_of(model: ModelConfig, settings: StructuredOutputsConfig) -> StructuredOutputManager:
    """A manager as an engine makes it when it starts."""
    config = SimpleNamespace(
        model_config=model,
        structured_outputs_config=settings,
        parallel_config=SimpleNamespace(distributed_executor_backend="mp"),
        scheduler_config=SimpleNamespace(max_num_seqs=8),
        speculative_config=None,
        num_speculative_tokens=0,
    )
    return StructuredOutputManager(config)


def outcome(manager: StructuredOutputManager, name: str) -> list[object] | str:
    """The engine of a request and what it takes, or the message of its refusal."""
    constraint, *texts = KEPT.get(name) or (REFUSED[name],)
    params = SamplingParams(structured_outputs=StructuredOutputsParams(**constraint))
    model, settings = manager.vllm_config.model_config, manager.vllm_config.structured_outputs_config
    try:
        params._validate_structured_outputs(model, settings, manager.tokenizer)
    except VLLMValidationError as error:
        return str(error)
    request = Request(request_id=name, prompt_token_ids=[1], sampling_params=params, pooling_params=None)
    manager.grammar_init(request)
    try:
        grammar = request.structured_output_request._grammar.result()
    except Exception as error:  # the record holds every way that a grammar can fail
        return f"{type(error).__name__}: {error}"
    request.structured_output_request.grammar = grammar
    ids = [manager.tokenizer.encode(text, add_special_tokens=False) for text in texts]
    taken = [len(grammar.validate_tokens(row)) == len(row) for row in ids]
    mask = manager.grammar_bitmask({name: request}, [name], {})
    return [params.structured_outputs._backend, *taken, bool((mask != -1).any())]


def main(folder: str) -> None:
    load_general_plugins()
    settings = StructuredOutputsConfig()
    model = ModelConfig(model=folder, dtype="float32", max_model_len=256)
    found = {}
    for first in permutations(FIRST):
        manager = manager_of(model, settings)
        names = [*first, *(name for name in (*KEPT, *REFUSED) if name not in first)]
        found[" ".join(first)] = {name: outcome(manager, name) for name in names}
    model.model_arch_config.vocab_size -= 64
    short = {name: outcome(manager_of(model, settings), name) for name in FIRST}
    print("RESULT " + json.dumps({"orders": found, "short vocabulary": short}))


main(sys.argv[1])
