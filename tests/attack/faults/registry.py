"""A registry that has nothing, as a program for a pod: 404 for every image, and 401 below /private."""

from http.server import BaseHTTPRequestHandler, HTTPServer

PORT = 5997


class Nothing(BaseHTTPRequestHandler):
    """Speaks as much of the registry's protocol as a refusal needs."""

    def do_GET(self) -> None:
        """Answer any path."""
        if self.path == "/v2/":
            code, body = 200, b"{}"
        elif self.path.startswith("/v2/private/"):
            code, body = 401, b'{"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}'
        else:
            code, body = 404, b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}'
        self.send_response(code)
        if code == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="nobody"')
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the base class's own spelling


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", PORT), Nothing).serve_forever()
