"""Run in a pod: tries places (JSON in argv[1]) for argv[2] seconds each; prints open, refused or silent for each."""

import asyncio
import json
import sys

limit = asyncio.Semaphore(200)


async def ask(host: str, port: int) -> str:
    """What one place says."""
    async with limit:
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), float(sys.argv[2]))
        except TimeoutError:
            return "silent"
        except ConnectionRefusedError:
            return "refused"
        writer.close()
        return "open"


async def main() -> None:
    """All places at once."""
    print(json.dumps(await asyncio.gather(*(ask(*row) for row in json.loads(sys.argv[1])))))


asyncio.run(main())
