"""TLS that begins after a server has taken a connection in, so that the server's limits hold during the handshake.

An event loop that listens with TLS tells the protocol of a connection once the handshake is done: until then no limit
counts it. So `connection` and the serving API listen without TLS. Their protocols count a connection as it is accepted,
give it a deadline, and call `begin_tls`. Imports no HTTP: it is mixed into any protocol of uvicorn's.
"""

import asyncio
import os
import socket
import ssl


class LateTls(asyncio.Protocol):
    """Goes before uvicorn's protocol: `connection_made` comes a second time when the handshake is done."""

    transport: asyncio.Transport
    handshake: asyncio.Task[object] | None = None

    def begin_tls(self, context: ssl.SSLContext) -> None:
        """Make the handshake on the accepted socket. When it fails the connection is lost, as any other is.

        `start_tls` on the transport would be shorter, but uvloop reads from it before it can be paused.
        """
        plain, loop = self.transport, asyncio.get_running_loop()
        try:
            accepted = socket.socket(fileno=os.dup(plain.get_extra_info("socket").fileno()))
        except OSError:  # no file descriptor is left
            plain.abort()
            return
        plain.set_protocol(asyncio.Protocol())
        plain.abort()  # ends the transport, not the connection
        accepted.setblocking(False)
        self.handshake = loop.create_task(loop.connect_accepted_socket(lambda: self, accepted, ssl=context))
        self.handshake.add_done_callback(lambda done: self._handshake_done(done, accepted))

    def abort(self) -> None:
        """End the connection at once, in its handshake too."""
        if self.handshake is not None:
            self.handshake.cancel()
        self.transport.abort()

    def shutdown(self) -> None:
        """End it as the server does; nobody waits for a handshake."""
        if self.handshake is not None and not self.handshake.done():
            self.abort()
        else:
            super().shutdown()  # type: ignore[misc]  # of uvicorn's protocol

    def _handshake_done(self, handshake: asyncio.Task[object], accepted: socket.socket) -> None:
        try:
            handshake.result()
        except (OSError, asyncio.CancelledError):  # no TLS, no common cipher, the peer has gone, its time is over
            accepted.close()
            self.connection_lost(None)
