"""Runs inside the serving image: starts with lookahead that must be refused; prints those that were not, as JSON.

python refuse_lookahead.py MODEL
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

REFUSED = 2
WINDLASS = ("windlass", "run", "--model")
WARM = '{"warmup_file": "{folder}/warm.json"}'


@dataclass(frozen=True)
class Case:
    """Flags, the text of the configuration and of a warm-up file ({folder} is theirs), and what is said."""

    says: str
    words: str = "--lookahead-cache-config-dir {folder}"
    config: str | None = None
    warm: str | None = None


CASES = (
    Case("cache_mode is 5; it must be from 0 to 2", config='{"cache_mode": 5}'),
    Case('cache_size is "much"; it must be a whole number', config='{"cache_size": "much"}'),
    Case("has no option 'copylength'; it knows: cache_mode, ", config='{"copylength": 3}'),
    Case("min_match_length 9 is above turbo_match_length 7", config='{"min_match_length": 9}'),
    Case("is not readable JSON", config='{"cache_mode": '),
    Case("must hold one JSON object of options", config="[1]"),
    Case("directory {folder}/none does not exist", "--use-lookahead --lookahead-cache-config-dir {folder}/none"),
    Case("warm-up file {folder}/warm.json is not readable JSON (", config=WARM),
    Case("warm-up file {folder}/warm.json is not readable JSON (", config=WARM, warm='[{"prompt": [1'),
    Case("warm-up file {folder}/warm.json must hold a list of", config=WARM, warm='{"prompt": [1]}'),
    Case('exchange 1: needs "prompt" and "output"', config=WARM,
         warm='[{"prompt": [], "output": []}, {"prompt": [1]}]'),
    Case("exchange 0: token id 1000000 at index 1 is outside the vocabulary", config=WARM,
         warm='[{"prompt": [1, 1000000], "output": []}]'),
    Case("exchange 0: the token id at index 0", config=WARM, warm='[{"prompt": [-1], "output": []}]'),
    Case("--num-speculative-tokens 0 cannot be drafted; set 1 to 128", "--use-lookahead --num-speculative-tokens 0"),
    Case("--num-speculative-tokens 64 cannot be drafted; set 1 to 63",
         "--use-lookahead --num-speculative-tokens 64 --max-model-len 64"),
    Case("--use-lookahead and --num-scheduler-steps 8 exclude each other", "--use-lookahead --num-scheduler-steps 8"),
    Case("--use-lookahead and --enable-chunked-prefill exclude each other", "--use-lookahead --enable-chunked-prefill"),
    Case("--use-lookahead and --speculative-config both draft",
         '--use-lookahead --speculative-config {"method":"ngram"}'),
    Case("--cpu-decoding-memory-utilization", "--use-lookahead --cpu-decoding-memory-utilization 1.5"),
)  # fmt: skip


def wrong(model: str, case: Case, port: int) -> str:
    """Why a case went otherwise than it should; empty when it did not."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("lookahead_cache_config.json", case.config), ("warm.json", case.warm)):
            if text is not None:
                (Path(folder) / name).write_text(text.replace("{folder}", folder))
        words = case.words.replace("{folder}", folder).split()
        env = os.environ | {"WINDLASS_FACTS_PORT": str(port), "WINDLASS_LICENSE_REQUIRED": "false"}
        command = (*WINDLASS, model, *words)
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100, check=False)
        last = done.stderr.strip().splitlines()[-1:]
        said = done.returncode == REFUSED and last and case.says.replace("{folder}", folder) in last[0]
        return "" if said and last[0].startswith("windlass: ") else f"{done.returncode}: {last}"


if __name__ == "__main__":
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(wrong, [sys.argv[1]] * len(CASES), CASES, range(9000, 9000 + len(CASES)))
        print("RESULT " + json.dumps({case.says: why for case, why in zip(CASES, found, strict=True) if why}))
