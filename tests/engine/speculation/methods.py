"""Runs in the serving image: one engine without drafts and one by each method, the same questions; one line of JSON.

    python methods.py FOLDER        a folder of models/tiny/drafters.py

Engines are of this process, one after the other: vLLM is imported once. A row has the tokens of greedy texts, alone and
together, of texts in a schema and under rules of sampling. It has log-probabilities and the engine's counts of drafts.
"""

from __future__ import annotations

import gc
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

# The image has no compiler; `windlass run` sets the last one there.
os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "ERROR", "TORCHDYNAMO_DISABLE": "1"}

from vllm import LLM, ModelRegistry
from vllm.distributed.parallel_state import cleanup_dist_env_and_memory
from vllm.sampling_params import StructuredOutputsParams
from windlass import SamplingParams
from windlass.engine.sampling.ngrams import PROCESSOR

TOKENS, DRAFTED = 32, 3
PROMPTS = [[5 + 7 * number, 100 + number, 2000 + 3 * number] for number in range(4)]
"""Their last tokens differ: the target's text depends on little else."""
SCHEMA = {
    "type": "object", "properties": {"name": {"enum": ["Anna", "Ben"]}, "open": {"type": "boolean"}},
    "required": ["name", "open"], "additionalProperties": False,
}  # fmt: skip
METHODS = {"none": None, "draft_model": "draft", "eagle": "eagle", "eagle3": "eagle3", "medusa": "medusa"}


def engine(folder: Path, method: str) -> LLM:
    """An engine of the target that drafts by a method."""
    drafter = METHODS[method]
    config = {"method": method, "model": str(folder / drafter), "num_speculative_tokens": DRAFTED} if drafter else None
    return LLM(
        str(folder / "target"), dtype="float32", max_model_len=512, max_num_seqs=8, enforce_eager=True,
        speculative_config=config, disable_log_stats=False, enable_prefix_caching=False, logits_processors=[PROCESSOR],
    )  # fmt: skip


def row(llm: LLM) -> dict[str, Any]:
    """What the engine answers, and its counts."""
    greedy = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True, logprobs=2)
    schema = SamplingParams(temperature=0, max_tokens=TOKENS, structured_outputs=StructuredOutputsParams(json=SCHEMA))
    prompts: list[Any] = [{"prompt_token_ids": one} for one in PROMPTS]
    together = llm.generate(prompts, greedy, use_tqdm=False)
    rules = {"no_repeat_ngram_size": 1, "logit_bias": dict.fromkeys(_tokens(together[0])[:4], -100.0), "min_p": 0.1}
    ruled = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True, **rules)
    # The first token of each text stands in its prompt, so that it must not come again.
    forbidding: list[Any] = [
        {"prompt_token_ids": [_tokens(text)[0], *prompt]} for text, prompt in zip(together, PROMPTS, strict=True)
    ]
    return {
        "alone": [_tokens(llm.generate([prompts[0]], greedy, use_tqdm=False)[0])],
        "together": [_tokens(one) for one in together],
        "ruled": [_tokens(one) for one in llm.generate(forbidding, ruled, use_tqdm=False)],
        "schema": [_tokens(one) for one in llm.generate(prompts, schema, use_tqdm=False)],
        "logprobs": [
            [[value.logprob for value in place.values()] for place in one.outputs[0].logprobs or ()] for one in together
        ],
        "counts": {
            one.name.removeprefix("vllm:spec_decode_num_"): getattr(one, "value", None)
            for one in llm.get_metrics()
            if one.name in ("vllm:spec_decode_num_draft_tokens", "vllm:spec_decode_num_accepted_tokens")
        },
    }


def _tokens(output: Any) -> list[int]:
    return list(output.outputs[0].token_ids)


def main() -> None:
    """A row a method; a method that the engine refuses has the reason in the place of one."""
    folder, rows = Path(sys.argv[1]), dict[str, Any]()
    for method in METHODS:
        llm = engine(folder, method)
        rows[method] = row(llm)
        print(method, rows[method]["counts"], file=sys.stderr, flush=True)
        del llm
        gc.collect()
        cleanup_dist_env_and_memory()
    heads = sorted(name for name in ModelRegistry.get_supported_archs() if re.search("eagle|medusa", name, re.I))
    print("RESULT " + json.dumps({"rows": rows, "heads": heads}))


if __name__ == "__main__":
    main()
