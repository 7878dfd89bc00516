"""A service at a port of this machine: ``service.py PORT``. It answers with a hash, and counts its answers."""

import hashlib
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DATA = bytes(128 << 10)
PADDING = b"." * 2048


class Handler(BaseHTTPRequestHandler):
    """Answers a request."""

    protocol_version = "HTTP/1.1"
    # An answer is one packet. The second of two would wait for the client's acknowledgement.
    wbufsize = 65536
    answers = 0

    def do_GET(self) -> None:
        """Answer with a hash, or with the number of answers and the time."""
        if self.path == "/answers":
            body = f"answers {Handler.answers} at {time.time():.6f}\n".encode()
        else:
            Handler.answers += 1
            body = hashlib.sha256(DATA + str(Handler.answers).encode()).hexdigest().encode() + PADDING
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
