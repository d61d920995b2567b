"""Runs inside the serving image: `no_repeat_ngram_size` beside transformers' own rule, and in a real engine."""

import json
import os
import random
import sys
from types import SimpleNamespace
from typing import Any

os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}

VOCABULARY, SLOTS, LONGEST = 7, 8, 64
LONG = 80
BATCHES = 100
QUESTION = [{"role": "user", "content": "What does os.path.join do?"}]
Sequences = list[list[int]]


def transformers_bans(sequence: list[int], size: int) -> list[int]:
    """The tokens that transformers takes out after this sequence."""
    import torch
    from transformers import NoRepeatNGramLogitsProcessor

    scores = NoRepeatNGramLogitsProcessor(size)(torch.tensor([sequence]), torch.zeros(1, VOCABULARY))
    return torch.isneginf(scores[0]).nonzero()[:, 0].tolist()


def asking(size: int) -> SimpleNamespace:
    return SimpleNamespace(extra_args={"no_repeat_ngram_size": size} if size else None)


def some(count: int, chance: random.Random) -> tuple[Sequences, list[int]]:
    """Sequences and sizes; one in five asks for nothing."""
    sequences = [[chance.randrange(VOCABULARY) for _ in range(chance.randint(1, 30))] for _ in range(count)]
    return sequences, [chance.choice([0, 1, 2, 3, 4]) for _ in range(count)]


def bans(logits: Any) -> list[list[int]]:
    """The tokens of each row that cannot be drawn; none for a row that nothing could be drawn from."""
    import torch

    return [torch.isneginf(row).nonzero()[:, 0].tolist() for row in logits]


def expected(sequences: Sequences, sizes: list[int]) -> list[list[int]]:
    """As transformers, but a row keeps its tokens when all of them would go."""
    found = [transformers_bans(one, size) if size else [] for one, size in zip(sequences, sizes, strict=True)]
    return [row if len(row) < VOCABULARY else [] for row in found]


def on_host(chance: random.Random) -> bool:
    """A batch of the host's runner, its prompt and answer cut anywhere."""
    import torch
    from windlass.engine.sampling.no_repeat_ngram import NoRepeatNgram

    sequences, sizes = some(SLOTS, chance)
    cuts = [chance.randint(0, len(one)) for one in sequences]
    parts = [(one[:cut], one[cut:]) for one, cut in zip(sequences, cuts, strict=True)]
    processor = NoRepeatNgram(None, torch.device("cpu"), False)
    added = [(row, asking(size), *part) for row, (size, part) in enumerate(zip(sizes, parts, strict=True))]
    processor.update_state(SimpleNamespace(added=added, removed=[], moved=[]))
    logits = processor.apply(torch.zeros(SLOTS, VOCABULARY))
    return bans(logits) == expected(sequences, sizes)


def on_device(chance: random.Random) -> bool:
    """A batch of the device's runner: slots in any order, and drafts, each with a row of its own."""
    import torch
    from windlass.engine.sampling.no_repeat_ngram import NoRepeatNgram

    count = chance.randint(1, SLOTS)
    settled, sizes = some(count, chance)
    drafts = [[chance.randrange(VOCABULARY) for _ in range(chance.randint(0, 3))] for _ in range(count)]
    slots = chance.sample(range(SLOTS), count)
    tokens, lengths = torch.full((SLOTS, LONGEST), 99), torch.zeros(SLOTS, dtype=torch.int32)
    states = SimpleNamespace(
        device=torch.device("cpu"),
        max_num_reqs=SLOTS,
        all_token_ids=SimpleNamespace(gpu=tokens),
        total_len=SimpleNamespace(gpu=lengths),
    )
    processor = NoRepeatNgram(None, states)
    for slot, one, size in zip(slots, settled, sizes, strict=True):
        tokens[slot, : len(one)], lengths[slot] = torch.tensor(one), len(one)
        processor.add_request(slot, asking(size))
    processor.apply_staged_writes()
    rows = [(at, local) for at in range(count) for local in range(len(drafts[at]) + 1)]
    sequences = [settled[at] + drafts[at][:local] for at, local in rows]
    lengths_at_most = [len(settled[at]) + len(drafts[at]) for at in range(count)]
    context = SimpleNamespace(
        expanded_idx_mapping=torch.tensor([slots[at] for at, _ in rows]),
        idx_mapping_np=torch.tensor(slots).numpy(),
        expanded_local_pos=torch.tensor([local for _, local in rows]),
        input_ids=torch.tensor([one[-1] for one in sequences]),
        # vLLM pads it to the size of the step's CUDA graph.
        seq_lens_upper_bound_np=torch.tensor(lengths_at_most + [0] * chance.randint(0, 3)).numpy(),
    )
    logits = processor.apply(torch.zeros(len(rows), VOCABULARY), context)
    return bans(logits) == expected(sequences, [sizes[at] for at, _ in rows])


def at_the_front_ends() -> list[str]:
    """What the front ends of both runners say to a size that is none, once they have loaded the class by its name."""
    from vllm.exceptions import VLLMValidationError
    from vllm.v1.sample.logits_processor import validate_logits_processors_parameters
    from vllm.v1.worker.gpu.sample.logits_processor.loader import build_custom_logits_processors_params_validator
    from windlass.engine.sampling.ngrams import PROCESSOR

    device = build_custom_logits_processors_params_validator([PROCESSOR])
    said = []
    for check in (lambda params: validate_logits_processors_parameters([PROCESSOR], params), device):
        check(asking(3))
        try:
            check(asking(-1))
        except VLLMValidationError as error:
            said.append(str(error))
    return said


def repeated(tokens: list[int], size: int) -> int:
    """How many runs of this size stand in the tokens a second time."""
    runs = [tuple(tokens[at : at + size]) for at in range(len(tokens) - size + 1)]
    return len(runs) - len(set(runs))


def in_engine(model: str) -> dict[str, Any]:
    """Long greedy answers of a real engine, with the rule and without it, alone and in one batch."""
    from windlass import LLM, SamplingParams

    engine = LLM(model, dtype="float32", max_model_len=512, distributed_executor_backend="uni",
                 gpu_memory_utilization=0.2, max_num_seqs=4, enforce_eager=True)  # fmt: skip
    long = {"temperature": 0, "max_tokens": LONG, "ignore_eos": True}
    plain, ruled = SamplingParams(**long), [SamplingParams(**long, no_repeat_ngram_size=size) for size in (2, 3)]

    def tokens(output: Any) -> list[int]:
        return [*output.prompt_token_ids, *output.outputs[0].token_ids]

    alone = [tokens(engine.chat(QUESTION, one, use_tqdm=False)[0]) for one in (plain, *ruled)]
    # More conversations than rows, of unequal lengths, so that rows are emptied, filled and moved.
    each = [plain, *ruled, *ruled, plain]
    together = [tokens(one) for one in engine.chat([QUESTION] * len(each), each, use_tqdm=False)]
    same = [together[at] == alone[(plain, *ruled).index(params)] for at, params in enumerate(each)]
    sizes = (3, 2, 3)
    new = [repeated(one, size) - repeated(one[:-LONG], size) for one, size in zip(alone, sizes, strict=True)]
    return {"repeated": dict(zip(("plain", "2", "3"), new, strict=True)), "same_in_a_batch": all(same)}


if __name__ == "__main__":
    chances = [random.Random(seed) for seed in range(BATCHES)]  # noqa: S311 - test data
    found = {
        "host": [on_host(chance) for chance in chances].count(False),
        "device": [on_device(chance) for chance in chances].count(False),
        "front_ends": at_the_front_ends(),
        "engine": in_engine(sys.argv[1]),
    }
    print("RESULT " + json.dumps(found))
