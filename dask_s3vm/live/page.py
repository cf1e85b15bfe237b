"""The page itself, as HTTP answers: one file that loads nothing but its state.

The file has no user data in it. The state is JSON, and the script of the page writes texts as
texts, never as HTML. `HEADERS` forbid the browser to run any other script.
"""

import base64
import hashlib
import json
import re
from importlib import resources

from dask_s3vm.live.board import Board

#: Where the page is, and its state.
PATH = "/s3vm"
STATE_PATH = "/s3vm/state.json"

PAGE = resources.files("dask_s3vm.live").joinpath("page.html").read_bytes()


def _hash_of(tag: str) -> str:
    """Hash of the content of the only element of that name, as a security policy wants it."""
    (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>".encode(), PAGE, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}'"


HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; connect-src 'self'; script-src {_hash_of('script')}; "
        f"style-src {_hash_of('style')}; img-src data:; base-uri 'none'; form-action 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def state_json(board: Board, chosen: str | None) -> bytes:
    """State of the page; see `Board.state`."""
    return json.dumps(board.state(chosen), allow_nan=False, separators=(",", ":")).encode()
