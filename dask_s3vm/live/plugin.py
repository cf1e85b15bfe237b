"""The live page on the dashboard of a dask scheduler.

`EventLog` runs in the client: it has the page added to the dashboard, and sends messages through
dask's event log. `LivePage` runs in the scheduler: it hears them there.
"""

import contextlib
import logging
import weakref
from typing import Any

import distributed
from distributed.diagnostics.plugin import SchedulerPlugin
from tornado.web import Application, RequestHandler

from dask_s3vm.live.board import Board
from dask_s3vm.live.page import HEADERS, PAGE, PATH, STATE_PATH, state_json

logger = logging.getLogger(__name__)

#: Topic of the event log.
TOPIC = "s3vm"

#: Messages that stay in the event log. Dask would keep a thousand, of some 10 kB in memory each.
KEPT = 100

#: Routes of every scheduler, by which the prefix of its dashboard is found.
_KNOWN_ROUTES = ("/health$", "/json/identity.json$", "/info/main/workers.html$")

#: Clients whose scheduler has the page.
_registered: weakref.WeakSet[distributed.Client] = weakref.WeakSet()


class EventLog:
    """Sends messages of a fit to the scheduler of a client.

    The first one adds the page to its dashboard. That fails where the scheduler has no dashboard,
    does not accept plug-ins, or has no such package: then there is no page.
    """

    def __init__(self, client: distributed.Client) -> None:
        self._client = client

    def __call__(self, message: dict[str, Any]) -> None:
        """Send a message."""
        client = self._client
        if client not in _registered:
            if "dashboard" not in client.scheduler_info()["services"]:
                raise RuntimeError("the scheduler has no dashboard")
            client.register_plugin(LivePage())
            _registered.add(client)
        client.log_event(TOPIC, message)


def page_address(client: distributed.Client) -> str | None:
    """Address of the live page of a client's scheduler; None if there is none."""
    with contextlib.suppress(Exception):  # no dashboard, or a form of its address that is wrong
        link = str(client.dashboard_link)
        if link.endswith("/status"):
            return link.removesuffix("/status") + PATH
    return None


class LivePage(SchedulerPlugin):
    """Adds the page to the HTTP server of the scheduler that it is registered with."""

    name = "s3vm-live"
    idempotent = True

    def __init__(self) -> None:
        self._board: Board | None = None
        self._scheduler: Any = None

    async def start(self, scheduler: Any) -> None:
        """Add the page; called by the scheduler."""
        self._board, self._scheduler = Board(), scheduler
        application = scheduler.http_application
        prefix, told = _prefix_of(application), {"board": self._board}
        application.add_handlers(
            ".*$",
            [(prefix + PATH, PageHandler), (prefix + STATE_PATH, StateHandler, told)],
        )

    def log_event(self, topic: str, msg: Any) -> None:
        """Take in a message; called by the scheduler for every event."""
        if topic == TOPIC and self._board is not None:
            self._board.take(msg)
            with contextlib.suppress(AttributeError):  # dask has no public way to shorten a topic
                events = self._scheduler._broker._topics[TOPIC].events
                while len(events) > KEPT:
                    events.popleft()


def _prefix_of(application: Application) -> str:
    """What the addresses of a dashboard begin with: see `dask scheduler --dashboard-prefix`."""
    for rule in application.wildcard_router.rules:
        pattern = getattr(getattr(rule.matcher, "regex", None), "pattern", "")
        for known in _KNOWN_ROUTES:
            if pattern.endswith(known):
                return str(pattern.removesuffix(known))
    return ""


class PageHandler(RequestHandler):
    """The page; there is nothing to send to it."""

    def get(self) -> None:
        """Answer with the page."""
        self._answer(PAGE, "text/html; charset=utf-8")

    def set_default_headers(self) -> None:
        """Forbid everything that the page does not need."""
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def _answer(self, content: bytes, kind: str) -> None:
        self.set_header("Content-Type", kind)
        self.write(content)


class StateHandler(PageHandler):
    """The state of the page, as JSON."""

    def initialize(self, board: Board) -> None:
        """Take the board in."""
        self._board = board

    def get(self) -> None:
        """Answer with all fits in short, and the one that is asked for in full."""
        chosen = self.get_query_argument("fit", None)
        self._answer(state_json(self._board, chosen), "application/json")
