"""The inference server of the demo: answers with its pod, node and GPU, and ends some time after SIGTERM.

It runs in a pod, from the standard library alone.
"""

import json
import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FAREWELL_S = float(os.environ.get("FAREWELL_S", "1.5"))


class Handler(BaseHTTPRequestHandler):
    """Answers each GET with the pod's name, its node and its GPU."""

    def do_GET(self) -> None:
        """Answer one request."""
        known = {"pod": "POD", "node": "NODE", "gpu": "NVIDIA_VISIBLE_DEVICES"}
        answer = {key: os.environ.get(variable, "") for key, variable in known.items()}
        body = json.dumps(answer | {"path": self.path}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def main() -> None:
    """Serve until SIGTERM, and then end after `FAREWELL_S`."""
    server = ThreadingHTTPServer(("", 8080), Handler)

    def stop(_signal: int, _frame: object) -> None:
        time.sleep(FAREWELL_S)
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    server.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    main()
