"""Whether every rule of sampling is kept at drafted places: outputs with drafts beside those of an engine without.

    python tests/engine/identity/rules.py MODEL [--drafters lookahead,ngram,draft-model] [--draws 2000] [--json FILE]

Runs on a CPU or on one GPU, with our plug-ins installed or beside the sources (`benchmarks/quantization/beside.py`).
Greedy: each rule on each prompt, twice, token by token. Sampled: draws behind one prompt, held to those without drafts
by a chi-square test. Prints two tables, then `RESULT {json}`. Exit code 1 when a token or a distribution differs, when
a rule changes nothing, or when a drafter's drafts were not put to the test.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[3] / "benchmarks/processes"))

import keeper
from chi_square import p_value

SETTINGS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "HF_HUB_OFFLINE": "1",
    "TRITON_F32_DEFAULT": "ieee",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
}
"""On a GPU attention computes in true float32, so that a batch's size decides no token."""
PROMPTS = (
    "def add(a, b):",
    "import os\nimport os\n",
    "What does os.path.join do?",
    "for i in range(",
    "Write a JSON object with name Anna and age 30.",
    "class Point:\n    def __init__(self, x, y):",
)
OUTPUT_TOKENS, DRAWN_TOKENS, AT_ONCE = 64, 4, 50
"""Of the drawn tokens the first comes with the prompt and was never a draft; the three behind it are compared."""
LEAST_P = 1e-4
K = 4
LOOKAHEAD = {
    "cpu": (
        {"method": "custom_class", "model": "windlass.engine.lookahead.vllm_cpu.HostProposer"},
        "vllm_cpu.HostWorker",
    ),
    "cuda": ({"method": "ngram_gpu", "prompt_lookup_min": 2, "prompt_lookup_max": 4}, "vllm_gpu.DeviceWorker"),
}
ENGINE = {
    "cpu": {"enforce_eager": True, "kv_cache_memory_bytes": 2**28},
    "cuda": {
        "gpu_memory_utilization": 0.2,
        "kv_cache_memory_bytes": 2**30,
        "attention_backend": "TRITON_ATTN",
        "compilation_config": {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"},
    },
}
UNDRAFTED = frozenset({("ngram", "no_repeat_ngram_size 1"), ("ngram", "all")})
"""N-grams draft what came before, which these rules forbid: equal outputs show no more than that the engine serves."""
Rules = dict[str, dict[str, Any]]
Outputs = list[list[int]]


@dataclass
class Found:
    """What one engine completed, and what of it were drafts."""

    greedy: dict[str, list[Outputs]] = field(default_factory=dict)
    drawn: dict[str, Outputs] = field(default_factory=dict)
    drafts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Drafted and accepted tokens, by rule; those of draws have `drawn ` before it."""


class Engine:
    """vLLM in this process, with a drafter or without."""

    def __init__(self, model: str, drafter: str, device: str) -> None:
        from vllm import LLM
        from windlass.engine.sampling.ngrams import PROCESSOR

        common = {"dtype": "float32", "max_model_len": 512, "max_num_seqs": 64, "logits_processors": [PROCESSOR]}
        words = common | {"distributed_executor_backend": "uni", "disable_log_stats": False} | ENGINE[device]
        self._llm = LLM(model, **words, **drafts(model, drafter, device))

    def ask(self, prompts: list[list[int]], **sampling: object) -> tuple[Outputs, tuple[int, int]]:
        """The outputs, and how many tokens were drafted and accepted for them."""
        from windlass import SamplingParams

        before = self._drafts()
        params = SamplingParams(**({"ignore_eos": True, "detokenize": False} | sampling))
        found = self._llm.generate([{"prompt_token_ids": one} for one in prompts], params, use_tqdm=False)
        after = self._drafts()
        outputs = [list(sample.token_ids) for one in found for sample in one.outputs]
        return outputs, (after[0] - before[0], after[1] - before[1])

    def _drafts(self) -> tuple[int, int]:
        known = {one.name: getattr(one, "value", 0) for one in self._llm.get_metrics()}
        drafted, accepted = (known.get(f"vllm:spec_decode_num_{name}_tokens", 0) for name in ("draft", "accepted"))
        return int(drafted), int(accepted)

    def encode(self, text: str) -> list[int]:
        """Its tokens."""
        return list(self._llm.get_tokenizer().encode(text))


def drafts(model: str, drafter: str, device: str) -> dict[str, Any]:
    """The engine's words for a drafter."""
    if drafter == "none":
        return {}
    if drafter == "ngram":
        method = "ngram" if device == "cpu" else "ngram_gpu"
        found: dict[str, Any] = {"method": method, "prompt_lookup_min": 1, "prompt_lookup_max": 3}
    elif drafter == "draft-model":
        found = {"method": "draft_model", "model": model}
    else:
        found, worker = LOOKAHEAD[device]
        from windlass.engine.lookahead.settings import VARIABLE, LookaheadSettings

        folder = Path(tempfile.mkdtemp())
        # Drafts at every step, many of them wrong: a rule that is kept for right ones alone would show.
        (folder / "lookahead_cache_config.json").write_text(json.dumps({"cache_size": 10**5, "min_gain": 0}))
        os.environ[VARIABLE] = LookaheadSettings(config_dir=str(folder)).to_json()
        return {
            "speculative_config": found | {"num_speculative_tokens": K},
            "worker_cls": f"windlass.engine.lookahead.{worker}",
        }
    return {"speculative_config": found | {"num_speculative_tokens": K}}


def rules(plain: Outputs) -> tuple[Rules, Rules]:
    """Rules of greedy and of sampled requests; biases change the tokens that the model likes most."""
    common = [token for token, _ in Counter(token for one in plain for token in one).most_common(4)]
    bias = {common[0]: -100.0, common[1]: 4.0, common[2]: -2.0}
    stops = {"ignore_eos": False, "stop_token_ids": [common[3]]}
    alone: Rules = {
        "none": {},
        "no_repeat_ngram_size 1": {"no_repeat_ngram_size": 1},
        "no_repeat_ngram_size 3": {"no_repeat_ngram_size": 3},
        "logit_bias": {"logit_bias": bias},
        "min_tokens": {"min_tokens": 23, **stops},
        "penalties and logit_bias": {"repetition_penalty": 1.3, "presence_penalty": 0.5, "logit_bias": bias},
    }
    every = {"no_repeat_ngram_size": 2, "logit_bias": bias, "repetition_penalty": 1.2, "min_tokens": 23, **stops}
    greedy = alone | {"min_p": {"min_p": 0.2}, "all": every | {"min_p": 0.1}}
    drawn: Rules = {
        "none": {},
        "min_p": {"min_p": 0.2},
        "logit_bias": {"logit_bias": bias},
        "no_repeat_ngram_size 1": {"no_repeat_ngram_size": 1},
        "all": {"no_repeat_ngram_size": 1, "logit_bias": bias, "repetition_penalty": 1.2, "min_p": 0.1},
    }
    return greedy, drawn


def read(file: Path) -> tuple[Rules, Rules]:
    """The rules that the first engine wrote; JSON has texts for keys."""
    greedy, drawn = json.loads(file.read_text())
    for rule in (*greedy.values(), *drawn.values()):
        if bias := rule.get("logit_bias"):
            rule["logit_bias"] = {int(token): value for token, value in bias.items()}
    return greedy, drawn


def answers(engine: Engine, prompts: list[list[int]], asked: tuple[Rules, Rules], draws: int, seed: int) -> Found:
    """Everything of one engine; other seeds in each: equal ones would make samples alike."""
    found = Found()
    greedy, drawn = asked
    for name, rule in greedy.items():
        found.greedy[name], counted = [], []
        for _ in range(2):
            outputs, drafted = engine.ask(prompts, temperature=0, max_tokens=OUTPUT_TOKENS, **rule)
            found.greedy[name].append(outputs)
            counted.append(drafted)
        found.drafts[name] = sum(one for one, _ in counted), sum(one for _, one in counted)
    for name, rule in drawn.items():
        words = {"temperature": 0.9, "max_tokens": DRAWN_TOKENS, "n": AT_ONCE, "seed": seed}
        asks = [prompts[1]] * (draws // AT_ONCE)
        found.drawn[name], found.drafts[f"drawn {name}"] = drawn_tokens(engine, asks, words | rule)
    return found


def drawn_tokens(engine: Engine, asks: list[list[int]], words: dict[str, Any]) -> tuple[Outputs, tuple[int, int]]:
    """Each ask has a seed of its own."""
    outputs: Outputs = []
    drafted = accepted = 0
    for number, prompt in enumerate(asks):
        some, (one, other) = engine.ask([prompt], **(words | {"seed": words["seed"] + number * AT_ONCE}))
        outputs += some
        drafted, accepted = drafted + one, accepted + other
    return outputs, (drafted, accepted)


def row(name: str, base: Found, found: Found, drafter: str) -> dict[str, Any]:
    """A rule of greedy requests: both passes of a drafter beside the engine without."""
    wanted = base.greedy[name][0]
    pairs = [(one, other) for outputs in found.greedy[name] for one, other in zip(wanted, outputs, strict=True)]
    drafted, accepted = found.drafts[name]
    return {
        "rule": name,
        "drafter": drafter,
        "outputs": len(pairs),
        "equal": sum(one == other for one, other in pairs),
        "changed by the rule": sum(one != other for one, other in zip(wanted, base.greedy["none"][0], strict=True)),
        "tokens": sum(len(other) for _, other in pairs),
        "drafted": drafted,
        "accepted": accepted,
    }


def chance(name: str, base: Found, found: Found, drafter: str) -> dict[str, Any]:
    """A rule of draws: the least probability that a place, or all of them, are of one distribution."""
    one, two = base.drawn[name], found.drawn[name]
    places = (slice(1, 2), slice(2, 3), slice(3, 4), slice(DRAWN_TOKENS))
    chances = [p_value([tuple(draw[at]) for draw in one], [tuple(draw[at]) for draw in two]) for at in places]
    drafted, accepted = found.drafts[f"drawn {name}"]
    plain = base.drawn["none"]
    unruled = [p_value([tuple(draw[at]) for draw in one], [tuple(draw[at]) for draw in plain]) for at in places]
    return {
        "rule": name,
        "drafter": drafter,
        "draws": len(two),
        "least p": min(chances),
        "p without the rule": min(unruled),
        "drafted": drafted,
        "accepted": accepted,
    }


def red(rows: list[dict[str, Any]], chances: list[dict[str, Any]]) -> list[str]:
    """Why the run fails."""
    found = []
    for one in rows:
        where = f"{one['drafter']}, {one['rule']}"
        if one["equal"] < one["outputs"]:
            found.append(f"{where}: {one['outputs'] - one['equal']} of {one['outputs']} outputs differ")
        if not one["changed by the rule"] and one["rule"] not in {"none", "min_p"}:
            found.append(f"{where}: the rule changes nothing")
        if not 0 < one["accepted"] <= one["drafted"] and (one["drafter"], one["rule"]) not in UNDRAFTED:
            found.append(f"{where}: no draft was accepted")
    for one in chances:
        where = f"{one['drafter']}, draws with {one['rule']}"
        if one["least p"] < LEAST_P:
            found.append(f"{where}: the distribution differs, p = {one['least p']:.1e}")
        if not 0 < one["accepted"] < one["drafted"] and (one["drafter"], one["rule"]) not in UNDRAFTED:
            found.append(f"{where}: too few drafts to say anything")
        if one["rule"] != "none" and one["p without the rule"] > LEAST_P:
            found.append(f"{where}: the rule changes nothing")
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """For a page."""
    cells = [list(rows[0]), ["---"] * len(rows[0])]
    cells += [[f"{value:.2g}" if isinstance(value, float) else str(value) for value in one.values()] for one in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def words() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--drafters", type=lambda text: text.split(","), default=["lookahead", "ngram", "draft-model"])
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--part", help="of a process that this program starts: the engine's drafter")
    parser.add_argument("--folder", type=Path, help="of such a process: where the rules and the answers lie")
    return parser.parse_args()


def answer(arguments: argparse.Namespace, seed: int) -> None:
    """Of a process of its own: one engine's answers, into the folder; the first engine chooses the biased tokens."""
    from windlass.launch import probe

    engine = Engine(arguments.model, arguments.part, probe.engine_kind(os.environ))
    prompts, file = [engine.encode(text) for text in PROMPTS], arguments.folder / "rules.json"
    if not file.exists():
        file.write_text(json.dumps(rules(engine.ask(prompts, temperature=0, max_tokens=OUTPUT_TOKENS)[0])))
    found = answers(engine, prompts, read(file), arguments.draws, seed)
    (arguments.folder / f"{arguments.part}.json").write_text(json.dumps(asdict(found)))


def completed(arguments: argparse.Namespace, drafter: str, folder: Path) -> Found:
    """What a process with this drafter answers."""
    command = [sys.executable, __file__, arguments.model, "--draws", str(arguments.draws)]
    if code := keeper.start([*command, "--part", drafter, "--folder", str(folder)]).wait():
        raise SystemExit(f"the engine with {drafter} ended with {code}")
    return Found(**json.loads((folder / f"{drafter}.json").read_text()))


def main() -> int:
    """The exit code."""
    arguments = words()
    os.environ |= SETTINGS
    if arguments.part:
        answer(arguments, 10**6 * (1 + ["none", *arguments.drafters].index(arguments.part)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        base = completed(arguments, "none", Path(folder))
        found = {drafter: completed(arguments, drafter, Path(folder)) for drafter in arguments.drafters}
    rows = [row(name, base, one, drafter) for drafter, one in found.items() for name in base.greedy]
    chances = [chance(name, base, one, drafter) for drafter, one in found.items() for name in base.drawn]
    failures = red(rows, chances)
    print(table(rows), table(chances), "\n".join(failures) or "nothing differs", sep="\n\n")
    result = json.dumps({"red": failures, "greedy": rows, "drawn": chances})
    if arguments.json:
        arguments.json.write_text(result + "\n")
    print("RESULT " + result)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
