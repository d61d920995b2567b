"""Runs inside the serving image: whose drafts a step verifies on a simulated device, in drawn sequences.

Requests come, end, skip steps and take the places of others; some steps want no drafts, some verify none, some hand
theirs to the host at once. In every other case a model drafts beside the cache, and each row has either's drafts. The
model rests in some steps, and has not read some rows: it drafts for none of these.
Usage: take_exactly.py CASES     Prints the first verified draft of each case that was another request's, an older
step's, or nobody's, as a line of JSON.
"""

import json
import random
import sys
import time
from types import SimpleNamespace

import numpy as np
import torch
from windlass.engine.lookahead import doorbell
from windlass.engine.lookahead.doorbell import Drafter
from windlass.engine.lookahead.kernels import UNREAD
from windlass.engine.lookahead.verification import Verification
from windlass.engine.lookahead.vllm_gpu import DeviceRunner, DeviceSpeculator, GPUModelRunner
from windlass_lookahead.round_trip import CACHE, MODEL, RESTED

PLACES, MOST, STEPS = 6, 2, 40
NOTHING, UNWANTED = 0, -1
MODELS = 10**6
"""Added to what the model drafts."""


class Event:
    """A moment on the simulated device, which is always done with what is queued."""

    def __init__(self, *, enable_timing):
        assert enable_timing

    def record(self):
        self.at_s = time.perf_counter()

    def query(self):
        return True

    def elapsed_time(self, later):
        return 1000 * (later.at_s - self.at_s)


class Device:
    """What lies at each place and in each row: the number of the step that it was drafted after, and of its request."""

    def __init__(self, chance, *, has_model):
        self.chance, self.took = chance, []
        self.by_place = torch.zeros((PLACES, MOST), dtype=torch.int64)
        self.states = SimpleNamespace(draft_tokens=self.by_place, req_id_to_index={}, max_num_reqs=PLACES)
        self.drafter = drafter = Drafter.__new__(Drafter)
        drafter._number, drafter._pending, drafter._recorded, drafter._finished, drafter._begun = 0, None, [], [], []
        drafter._completed, drafter._places = np.zeros(1, dtype=np.int64), SimpleNamespace(doorbell=0, completed=0)
        drafter.trip = SimpleNamespace(
            submit=self.submit,
            choose=lambda *_, **__: self.budget,
            add_model=lambda: None,
            model_drafts=lambda *_, wanted: chance.choice((RESTED, 0, 1, MOST) if wanted else (RESTED, 0)),
            unread=lambda rows: [row for row in range(len(rows)) if chance.random() < 0.1],
            model_took=lambda *took: self.took.append(took),
        )
        drafter.model, drafter._pinned = None, SimpleNamespace(device_model=None)
        drafter._write, drafter._take = lambda *_: None, self.take
        self.speculator = speculator = DeviceSpeculator.__new__(DeviceSpeculator)
        speculator._drafter = drafter
        speculator._config = SimpleNamespace(parallel_config=SimpleNamespace(data_parallel_size=1))
        speculator._runner = SimpleNamespace(req_states=self.states, adaptive_verification=None)
        speculator._drafts = SimpleNamespace(
            tokens=torch.zeros((PLACES, MOST), dtype=torch.int64),
            sure=None,
            source=torch.zeros(PLACES, dtype=torch.int32),
        )
        speculator._group = SimpleNamespace(world_size=1)
        speculator._takes_later = speculator.is_serving = True
        self.verification = verification = Verification.__new__(Verification)
        verification._trip, verification._take, verification._most_logits = drafter.trip, drafter.take, 10_000
        verification._judging_ms, verification.num_bonus_tokens = np.zeros(10_001), 1
        verification.cost_tables = np.zeros(10_001), np.zeros(10_001)
        self.runner = DeviceRunner.__new__(DeviceRunner)
        self.runner.lookahead = speculator
        self.free, self.alive, self.last, self.planned = list(range(PLACES)), {}, {}, set()
        self.came, self.budget = 0, 0
        self.engines = SimpleNamespace(
            draft_logits=None,
            num_speculative_steps=MOST,
            propose=self.models,
            draft_tokens=torch.zeros((PLACES, MOST), dtype=torch.int64),
            draft_token_confidence_probs=torch.zeros((PLACES, MOST)),
        )
        self.drafting = speculator
        if has_model:
            speculator.add_model(self.engines)
            self.drafting = self.engines

    def models(self, batch, *_, num_speculative_tokens, **__):
        """What the engine's own speculator drafts: as many tokens of each row as it is asked for."""
        for row, name in enumerate(batch.req_ids):
            own = MODELS + 1000 * self.drafter._number + self.alive.get(name, 0)
            self.engines.draft_tokens[row] = own if num_speculative_tokens else UNWANTED
        return self.engines.draft_tokens[: len(batch.req_ids)]

    def submit(self, _number, _finished, _begun, rows, *, wanted, modelled):
        """The host answers by row what it drafts after this step."""
        self.answers = [1000 * self.drafter._number + self.alive.get(name, 0) for name in rows]

    def take(self, _states, places):
        """As the kernel does; what the host has written since the last doorbell is what it gets."""
        model = self.drafter.model
        for row, place in enumerate(places.tolist()):
            is_models = bool(model and model.count and model.tokens[row, 0] != UNREAD and self.chance.random() < 0.5)
            self.speculator._drafts.source[place] = MODEL if is_models else CACHE
            drafted = model.tokens[row] if is_models else self.answers[row]
            self.by_place[place] = self.speculator._drafts.tokens[row] = drafted

    def step(self):
        """One step; what was wrong with it."""
        gone = [name for name in self.alive if self.chance.random() < 0.15]
        self.speculator.note(set(gone), [])
        for name in gone:
            self.free.append(self.states.req_id_to_index.pop(name))
            del self.alive[name]
        self.planned -= set(gone)
        new = [str(self.came + one) for one in range(self.chance.randint(0, len(self.free)))]
        self.came += len(new)
        scheduled = [SimpleNamespace(req_id=name, prefill_token_ids=[1]) for name in new]
        self.runner.add_requests(SimpleNamespace(scheduled_new_reqs=scheduled))
        rows = [name for name in self.alive if name in new or self.chance.random() < 0.8]
        if not rows:
            return None
        self.chance.shuffle(rows)
        padded = {name for name in new if self.chance.random() < 0.3}  # one token left to read: planned at once
        drafts = {name: [-1] * MOST for name in rows if name in self.planned or name in padded}
        wrong = None
        if drafts:
            self.budget = self.chance.choice((0, 0, 1, 3))
            self.verification.req_states = SimpleNamespace(
                req_id_to_index=self.states.req_id_to_index,
                num_computed_tokens_np=np.zeros(PLACES),
                prefill_len=SimpleNamespace(np=np.zeros(PLACES)),
            )
            self.verification.get_num_tokens({name: 1 + len(drafts.get(name, ())) for name in rows}, drafts)
            wrong = self.verified(drafts) if self.budget else None
        self.planned -= set(rows)
        return wrong or self.propose(rows)

    def verified(self, drafts):
        """What a row must verify: its own drafts of its last step; nothing, where it had none."""
        for name in drafts:
            found = set(self.by_place[self.states.req_id_to_index[name]].tolist())
            own = 1000 * self.last[name] + self.alive[name] if name in self.planned else NOTHING
            if found not in ({own}, {MODELS + own} if own else {own}):
                return {"request": name, "own": own, "found": sorted(found)}
        return None

    def propose(self, rows):
        """Behind a step: some rows are planned with drafts for their next one, or none of it."""
        wanted = self.chance.random() < 0.7
        places = torch.tensor([self.states.req_id_to_index[name] for name in rows])
        batch = SimpleNamespace(
            num_reqs=len(rows),
            num_scheduled_tokens=np.array([self.chance.choice((1, 1 + MOST, 1000)), *[1] * (len(rows) - 1)]),
            req_ids=rows,
            idx_mapping=places,
            has_structured_output_reqs=self.chance.random() < 0.2,
        )
        self.drafter._completed[0] = self.drafter._number + 1
        given = self.drafting.propose(
            batch, None, None, None, None, None, None, num_speculative_tokens=MOST if wanted else 0
        )
        if not wanted:  # as the engine does
            given[:] = UNWANTED
        self.by_place[places] = given
        for name in rows:
            self.last[name] = self.drafter._number
        self.planned |= {name for name in rows if wanted and self.chance.random() < 0.8}


def added(runner, scheduler_output):
    """The engine's own part: a place for each, with no drafts."""
    device = runner.device
    for new in scheduler_output.scheduled_new_reqs:
        place = device.free.pop()
        device.states.req_id_to_index[new.req_id], device.alive[new.req_id] = place, int(new.req_id) % 900 + 1
        device.by_place[place] = NOTHING


def case(seed):
    """The first wrong draft of one sequence, or nothing."""
    device = Device(random.Random(seed), has_model=bool(seed % 2))  # noqa: S311 - draws cases, no secret
    device.runner.device = device
    wrong = next((wrong for _ in range(STEPS) if (wrong := device.step())), None)
    timed = all(drafts in {0, 1, MOST} and ms >= 0 for _, drafts, ms, _ in device.took)
    return wrong or (None if timed and bool(device.took) == bool(seed % 2) else {"timed": len(device.took)})


if __name__ == "__main__":
    doorbell.wait = lambda *_: None
    torch.cuda.Event = Event
    GPUModelRunner.add_requests = added
    print("RESULT " + json.dumps({"wrong": [wrong for seed in range(int(sys.argv[1])) if (wrong := case(seed))][:3]}))
