"""A host of images inside the serving container: a picture, a way to it that redirects, and one that is not there."""

import base64
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 8600
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAADgAAAA4CAIAAAAn5KxJAAAAQ0lEQVR42u3OQQkAAAgEsEty/aMYy4cphMECLNO+EFFRUVFRUVFRUVFRUVFRUV"
    "FRUVFRUVFRUVFRUVFRUVFRUVFR0bN+SnG1YZXy7gAAAABJRU5ErkJggg=="
)
"""56 × 56 pixels of one colour."""
CHESS = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAADgAAAA4CAIAAAAn5KxJAAAATElEQVR42u3YsQ0AAAgCMP9/Wl/AwbiUA0jDSFWcjvPbCQoKCgoKCgp6CbUTKC"
    "goKCgoKOgGantQUFBQUFBQUN8TKCgoKCgoKOhR5wDSck6vxBPppAAAAABJRU5ErkJggg=="
)
"""As many of black and white fields."""
REDIRECTS = {"/away.png": "/red.png", "/inner.png": "http://169.254.169.254/latest/meta-data"}


class Handler(BaseHTTPRequestHandler):
    """Answers GET."""

    def do_GET(self) -> None:
        """The picture, a redirect, or 404."""
        body = PNG if self.path == "/red.png" else b""
        self.send_response(200 if body else 302 if self.path in REDIRECTS else 404)
        if self.path in REDIRECTS:
            self.send_header("Location", REDIRECTS[self.path])
        self.send_header("Content-Type", "image/png")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
