"""A small front for the chat page's tests: a path prefix, a key, or the page itself, before a real server.

`python tests/browser/front.py UPSTREAM [--prefix /a/b] [--key K] [--page] [--port N]` prints its address and serves
until its standard input ends. Everything under the prefix goes to the upstream as it is, answers stream through.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import aiohttp
from aiohttp import web

HOP_BY_HOP = {
    "connection",
    "content-encoding",
    "content-length",
    "date",
    "host",
    "keep-alive",
    "server",
    "transfer-encoding",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(upstream: str, prefix: str, key: str, page: bool) -> web.Application:
    """The front as a web application."""
    app = web.Application(client_max_size=64 * 2**20)
    if page:
        app.router.add_get(f"{prefix}/chat", the_page)
    app.router.add_route("*", prefix + "/{path:.*}", guarded(forward_to(upstream), key))
    return app


async def the_page(_: web.Request) -> web.Response:
    """The page as this checkout has it."""
    from windlass.chat_page import page

    body, headers = page()
    return web.Response(body=body, headers=headers)


def guarded(handler: Handler, key: str) -> Handler:
    """Refuse the API without the key, with the engine's own words; the page itself needs none."""

    async def guard(request: web.Request) -> web.StreamResponse:
        api = request.match_info["path"].startswith("v1/")
        if key and api and request.headers.get("Authorization") != f"Bearer {key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        return await handler(request)

    return guard


def forward_to(upstream: str) -> Handler:
    """Pass a request on, and its answer back piece by piece."""

    async def forward(request: web.Request) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        url = f"{upstream}/{request.match_info['path']}"
        async with (
            aiohttp.ClientSession() as client,
            client.request(request.method, url, headers=headers, data=await request.read()) as answer,
        ):
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            with suppress(ConnectionResetError):  # the browser stopped listening: so does the engine
                async for piece in answer.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
            return response

    return forward


async def serve(words: argparse.Namespace) -> None:
    """Serve until standard input ends."""
    runner = web.AppRunner(application(words.upstream.rstrip("/"), words.prefix, words.key, words.page))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", words.port)
    await site.start()
    host, port = runner.addresses[0][:2]
    print(f"http://{host}:{port}{words.prefix}", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("upstream")
    parser.add_argument("--prefix", default="")
    parser.add_argument("--key", default="")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
