"""How fast two GPUs gather what each has, in the sizes that a layer's keys and values have: GB/s out of each GPU.

python wire.py            once as it is, once with NCCL_P2P_DISABLE=1
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "processes"))

import keeper

SIZES = (8 << 10, 256 << 10, 3 << 20, 12 << 20, 32 << 20)
ROUNDS = 20


def main() -> None:
    """Both ways; each rank is a process of its own."""
    if len(sys.argv) > 1:
        rank(int(sys.argv[1]))
        return
    for name, more in (("linked", {}), ("NCCL_P2P_DISABLE=1", {"NCCL_P2P_DISABLE": "1"})):
        env = {**os.environ, **more, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29611", "WORLD_SIZE": "2"}
        both = [subprocess.Popen([sys.executable, __file__, str(one)], env={**env, "RANK": str(one)}) for one in (0, 1)]
        print(name, flush=True)
        for process in both:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                print(f"{name}: no answer in 60 s", flush=True)


def rank(number: int) -> None:
    """One GPU."""
    keeper.keep()  # a rank ends with this benchmark
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(number)
    dist.init_process_group("nccl")
    for size in SIZES:
        mine = torch.ones(size, dtype=torch.uint8, device="cuda")
        everybody = torch.empty(2 * size, dtype=torch.uint8, device="cuda")
        dist.all_gather_into_tensor(everybody, mine)  # the first one makes the connection
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(ROUNDS):
            dist.all_gather_into_tensor(everybody, mine)
        torch.cuda.synchronize()
        spent = (time.perf_counter() - begun) / ROUNDS
        if number == 0:
            print(f"  {size:>10} bytes: {1e6 * spent:8.1f} µs, {size / spent / 1e9:6.1f} GB/s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
