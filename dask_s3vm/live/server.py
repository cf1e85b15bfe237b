"""The live page of this process, for fits without a cluster: on the loopback interface alone."""

import contextlib
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from dask_s3vm.live.board import Board
from dask_s3vm.live.page import HEADERS, PAGE, PATH, STATE_PATH, state_json
from dask_s3vm.live.publisher import watched_by

HOST = "127.0.0.1"


@contextlib.contextmanager
def live_page(port: int) -> Iterator[str]:
    """Serve the page of the fits in this block, and return its address.

    Parameters
    ----------
    port : 0 for any that is free.

    Raises
    ------
    OSError
        If the port is taken.
    """
    board = Board()
    server = _Server((HOST, port), _handler_of(board))
    thread = threading.Thread(
        target=server.serve_forever, args=(0.05,), name="s3vm-live-server", daemon=True
    )
    thread.start()
    try:
        with watched_by(board.take):
            yield f"http://{HOST}:{server.server_port}{PATH}"
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a browser may go away at any moment."""


def _handler_of(board: Board) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers GET, and nothing else."""

        timeout = 10  # seconds that a silent browser keeps a thread

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            if not _is_ours(self.headers.get("Host"), self.server.server_port):  # type: ignore[attr-defined]
                self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            elif address.path in ("/", PATH):
                self._answer(PAGE, "text/html; charset=utf-8")
            elif address.path == STATE_PATH:
                chosen = parse_qs(address.query).get("fit", [None])[0]
                self._answer(state_json(board, chosen), "application/json")
            else:
                self.send_error(HTTPStatus.NOT_FOUND)

        def _answer(self, content: bytes, kind: str) -> None:
            self.send_response(HTTPStatus.OK)
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            """Log nothing: the terminal shows the progress line."""

    return Handler


def _is_ours(host: str | None, port: int) -> bool:
    """Whether a request names this server.

    Otherwise a page of a stranger could have its own name point to this machine, and read ours.
    """
    return host in (f"{HOST}:{port}", f"localhost:{port}")
