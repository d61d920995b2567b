"""A license server of this repository beside the servers, with a license for this machine's cards."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "processes"))

import httpx
import keeper

PORT = 18080
TOKEN = "a-token-of-this-run-alone"  # noqa: S105 - of a server that lives as long as the run
NO_CARD = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000000)\n"
PROGRAM = "import sys; from windlass_license.cli import main; sys.exit(main(sys.argv[1:]))"


@contextmanager
def license_server(work: Path, root: Path) -> Iterator[str]:
    """Make a key, issue a license for the cards, serve it for as long as the block takes; its address."""
    paths = (root / "license_server/src", root / "lib/base/src", os.environ.get("PYTHONPATH", ""))
    env = os.environ | {"PYTHONPATH": ":".join(map(str, paths))}
    folder = work / "license"
    (folder / "data").mkdir(parents=True, exist_ok=True)

    def run(*words: str | Path) -> None:
        said = subprocess.run(
            [sys.executable, "-c", PROGRAM, *map(str, words)], env=env, check=True, capture_output=True
        )
        (folder / f"{words[0]}.log").write_bytes(said.stdout + said.stderr)

    if not (folder / "keys").exists():
        run("keygen", "--out", folder / "keys")
        (folder / "cards.txt").write_text(_listing())
        (folder / "token").write_text(TOKEN)
        terms = ("--customer", "Card", "--appid", "1", "--expires", "2099-01-01T00:00:00+00:00")
        signed = ("--key", folder / "keys/private.pem", "--out", folder / "card.dat")
        run("issue", "--gpus", folder / "cards.txt", *terms, *signed)
    words = ["serve", "--host", "127.0.0.1", "--port", str(PORT), "--data", str(folder / "data")]
    words += ["--public-key", str(folder / "keys/public.pem"), "--admin-token-file", str(folder / "token")]
    words += ["--lease-auth", "none"]  # no cluster reviews the tokens of this machine
    with (folder / "server.log").open("wb") as log:
        command = [sys.executable, "-c", PROGRAM, *words]
        process = keeper.start(command, env=env, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{PORT}"
    try:
        _wait(address, process)
        file = {"file": ("card.dat", (folder / "card.dat").read_bytes())}
        httpx.post(f"{address}/ls", files=file, headers={"Authorization": f"Bearer {TOKEN}"}).raise_for_status()
        yield address
    finally:
        process.terminate()
        process.wait()


def _listing() -> str:
    with suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    return NO_CARD


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(150):
        with suppress(httpx.HTTPError):
            if httpx.get(f"{address}/healthz", timeout=2).status_code < 500:
                return
        if process.poll() is not None:
            break
        time.sleep(0.2)
    raise RuntimeError("the license server did not answer")
