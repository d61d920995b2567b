"""The first steps of a lookahead server, with vLLM's real warm-up before a runner that notes what it is asked."""

import json
from types import SimpleNamespace
from typing import Any

import torch
from vllm.v1.sample.ops import topk_topp_triton
from windlass.engine.lookahead.first_steps import REQUESTS, SHARES, TOP_P, FirstSteps, parts_of_a_row, top_p_batches

PROCESSORS = 132  # of an H100


class Runner:
    """As much of a runner as vLLM's warm-up looks at."""

    def __init__(self, fails_at: int = 0) -> None:
        self.num_speculative_steps, self.decode_query_len, self.is_pooling_model = 6, 7, False
        self.max_model_len, self.is_encoder_decoder, self.is_last_pp_rank = 512, False, True
        self.vllm_config = SimpleNamespace(is_mm_encoder_only=False, num_lookahead_tokens=0)
        self.scheduler_config = SimpleNamespace(max_num_seqs=64, max_num_batched_tokens=1024)
        self.kv_cache_config = SimpleNamespace(kv_cache_groups=[], num_blocks=512)
        self.model_config = SimpleNamespace(get_vocab_size=lambda: 320)
        self.model_state, self.kv_block_zeroer = SimpleNamespace(), None
        self.adaptive_verification = SimpleNamespace(cost_tables=([], []))
        self.rejection_sampler = SimpleNamespace(enable_adaptive_verification=True)
        self.disabled = False
        self.kv_connector = SimpleNamespace(set_disabled=lambda value: setattr(self, "disabled", value))
        self.req_states = SimpleNamespace(req_id_to_index={})
        self.seen: list[dict[str, Any]] = []
        self._fails_at = fails_at

    def execute(self, output: Any) -> None:
        known = self.req_states.req_id_to_index
        for request in output.finished_req_ids:
            del known[request]
        for new in output.scheduled_new_reqs:
            known[new.req_id] = len(known)
        asked = {new.sampling_params.temperature for new in output.scheduled_new_reqs}
        adaptive = self.adaptive_verification is not None and self.rejection_sampler.enable_adaptive_verification
        rows, drafts = len(output.num_scheduled_tokens), len(output.scheduled_spec_decode_tokens)
        self.seen.append({"rows": rows, "drafting": drafts, "adaptive": adaptive, "temperatures": sorted(asked)})
        if len(self.seen) == self._fails_at:
            raise ValueError("a kernel that is not there")


def run(runner: Runner) -> dict[str, Any]:
    steps = FirstSteps(runner, runner.execute, lambda _: None, PROCESSORS)
    steps.run()
    rows = {(step["rows"], step["drafting"]) for step in runner.seen}
    return {
        "steps": steps.steps, "rows": sorted(rows),
        "rounds": len(REQUESTS) * len(SHARES) + len(TOP_P) * len(top_p_batches(64, PROCESSORS)),
        "adaptive": all(step["adaptive"] for step in runner.seen),
        "temperatures": sorted({one for step in runner.seen for one in step["temperatures"]}),
        "left": len(runner.req_states.req_id_to_index), "disabled": runner.disabled,
        "most": runner.scheduler_config.max_num_seqs,
        "restored": runner.adaptive_verification is not None and runner.rejection_sampler.enable_adaptive_verification,
    }  # fmt: skip


torch.accelerator.synchronize = lambda: None  # there is none to wait for
parts = [(rows, processors) for rows in range(1, 65) for processors in (46, 58, 72, 92, 108, 114, 132)]
same = all(parts_of_a_row(*one) == topk_topp_triton._topp_split_count(*one) for one in parts)
batches = {processors: top_p_batches(256, processors) for processors in (72, 132)}
found = {"whole": run(Runner()), "failed": run(Runner(fails_at=3)), "same": same, "batches": batches}
print("RESULT", json.dumps(found))
