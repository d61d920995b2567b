"""The checks, as rows: each is a question about what was found and answers with one `Row`. Pure.

A new check is a function and a row in CHECKS; `windlass doctor --help` prints the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.doctor import fits, reach
from windlass.doctor.findings import Findings, Outcome, Row, fail, ok, skip, warn


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the answer."""

    name: str
    about: str
    look: Callable[[Findings], Row]


def examine(found: Findings) -> list[tuple[str, Row]]:
    """Every check's name and answer, in order."""
    return [(check.name, check.look(found)) for check in CHECKS]


def healthy(rows: Sequence[tuple[str, Row]]) -> bool:
    """Whether nothing failed."""
    return all(row.outcome is not Outcome.FAIL for _, row in rows)


def document(rows: Sequence[tuple[str, Row]]) -> dict[str, Any]:
    """The answer as JSON values."""
    checks = [{"name": name, "outcome": str(row.outcome), "seen": row.seen, "fix": row.fix} for name, row in rows]
    return {"ok": healthy(rows), "checks": checks}


def _flags(found: Findings) -> Row:
    if found.plan is None:
        return fail(found.refusal, "correct that; `windlass run --help` lists the flags")
    if found.plan.warnings:
        return warn("; ".join(found.plan.warnings), "`windlass run --explain` shows where each value came from")
    return ok(f"{len(found.plan.settings)} settings, no conflict")


def _engine(found: Findings) -> Row:
    if not found.engine.version:
        return fail("vLLM is not installed here", "run in the serving image, or install windlass-server[engine]")
    return ok(f"vLLM {found.engine.version} for {found.machine.engine}")


def _driver(found: Findings) -> Row:
    if found.machine.engine == "cpu":
        return skip("the CPU engine needs no GPU driver")
    driver, built = found.driver, found.engine.cuda
    if not driver.version:
        return fail("nvidia-smi lists no GPU", "give the container GPUs, and install the driver on its node")
    cuda = f", CUDA up to {_dotted(driver.cuda)}" if driver.cuda else ""
    seen = f"driver {driver.version}{cuda}, {len(driver.cards)} × {driver.cards[0].name}"
    if driver.cuda and built and driver.cuda[0] < built[0]:
        fix = f"the engine is built for CUDA {_dotted(built)}: update the node's driver, or take an older image"
        return warn(seen, f"{fix}; compatibility libraries in the image may bridge it")
    return ok(seen)


def _dotted(version: tuple[int, int] | None) -> str:
    return ".".join(str(part) for part in version or ())


def _checkpoint(found: Findings) -> Row:
    facts = found.checkpoint.facts
    if facts is None:
        return fail(found.checkpoint.message, "copy or download the model again, or name its directory with --model")
    gib = f", {facts.weights_bytes / 1024**3:.2f} GiB" if facts.weights_bytes else ""
    return ok(f"{facts.architecture}, {facts.params_text} parameters{gib}, every file is whole")


def _ports(found: Findings) -> Row:
    taken = [port for port in found.ports if port.why]
    if not taken:
        return ok(", ".join(f"{port.number} ({port.purpose})" for port in found.ports) + " can be opened")
    seen = "; ".join(f"{port.number} ({port.purpose}): {port.why}" for port in taken)
    if found.serving:
        return warn(seen, "windlass serves in this container already; nothing is to be done if that is wanted")
    return fail(seen, f"stop what uses it, or set {' and '.join(port.variable for port in taken)}")


CHECKS: tuple[Check, ...] = (
    Check("flags", "flags, variables and their combination are accepted", _flags),
    Check("engine", "vLLM is installed", _engine),
    Check("driver", "the GPU driver answers and is new enough for the engine", _driver),
    Check("method", "the GPUs can run the quantization method", fits.method),
    Check("checkpoint", "configuration, index, tokenizer and every weight file are there and whole", _checkpoint),
    Check("memory", "weights and one full context fit, by the memory formula", fits.memory),
    Check(
        "shared memory",
        "shared memory is large enough for the GPUs of one model and for the KV cache that is offloaded",
        fits.shared_memory,
    ),
    Check("port", "the ports can be opened", _ports),
    Check("license", "a license server answers and knows the GPUs; no lease is taken", reach.license_server),
    Check("group", "the head of the group answers, and NCCL's network interfaces are there", reach.group),
)
