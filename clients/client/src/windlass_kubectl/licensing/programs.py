"""Runs another program of this machine and takes what it prints."""

from __future__ import annotations

import asyncio

from windlass_kubectl.licensing.errors import LicensingError

SAID_MAX = 2000  # characters of a failure


async def run_program(program: str, *words: str, patience_s: float) -> str:
    """Standard output of the program; LicensingError with its own words when it fails."""
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise LicensingError(f"{program} cannot be started: {error.strerror}; put it on the PATH") from error
    try:
        said, complaint = await asyncio.wait_for(process.communicate(), patience_s)
    except TimeoutError as error:
        raise LicensingError(f"{program} {words[0]} did not end within {patience_s:.0f} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        told = (complaint or said).decode(errors="replace").strip()[-SAID_MAX:]
        raise LicensingError(told or f"{program} {words[0]} ended with code {process.returncode}")
    return said.decode(errors="replace")
