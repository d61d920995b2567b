"""What the facts port says to probes."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from windlass.engine.startup import phases
from windlass.supervisor.board import EngineFacts, FactsBoard


class HealthHandler(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_readiness_is_what_the_api_says_now() -> None:
    """A member's own API is asked each time; one without an API is ready while it serves."""
    facts = FactsBoard("s", EngineFacts("vllm", "0", ()))
    with HTTPServer(("127.0.0.1", 0), HealthHandler) as api:
        threading.Thread(target=api.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        facts.set_health_url(f"http://127.0.0.1:{api.server_port}/health")
        assert not facts.ready(), "it does not serve yet"
        facts.enter(phases.SERVING)
        assert facts.ready()
        HealthHandler.status = 503
        assert not facts.ready()
        api.shutdown()
    assert not facts.ready(), "nobody listens"
    facts.set_health_url("")
    assert facts.ready()
