"""A daemon's console on a real server, in front of a role that a test controls, and a browser that shows it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import Browser, BrowserContext, Page

from checkpointer.daemon.blueprints import ConsoleQuestions, daemon_blueprints, transfer_options
from checkpointer.daemon.service import CheckpointService
from checkpointer.transfer.upload_target import UploadTarget
from console.check_page import CheckRow
from engine.merge import Observer
from hadoop_common.recurring_fault import Alarm
from image_format.reader import ImageFile
from image_tools.cli.diff_command import difference_line
from image_tools.compare.comparison import ImageComparison
from node_state.history import COMPARISON, DIFFERENT, HistoryEntry
from node_state.state import JournalNodeState, RoleDetails
from servlets.application import create_application
from servlets.change_guard import ChangeGuard
from servlets.http_server import HttpServer
from servlets.image_transfer_servlet import ServingLimits
from site_config.checkpoint_config import CheckpointConfig
from site_config.kerberos import open_security
from tests.browser import PATIENCE
from tests.checkpointer.service_support import TRANSACTIONS, StoredRole, standby_config
from tests.engine.image_builder import ImageBuilder

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
NODES = ("jn1:8485", "jn2:8485", "jn3:8485")


class ShownRole(StoredRole):
    """A role whose state a test changes while the console shows it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.states = {str(root): "in use", "/data/2": "in use"}
        self.lost: set[str] = set()
        self.gate = threading.Event()
        self.began = threading.Event()
        self.during = self._during

    def storage(self) -> dict[str, str]:
        return self.states

    def details(self) -> RoleDetails:
        nodes = tuple(
            JournalNodeState(address=each, answers=each not in self.lost, fault="cannot connect" * (each in self.lost))
            for each in NODES
        )
        return RoleDetails(applied_txid=self.journal, journal_nodes=nodes)

    def fail_directory(self, why: str = "No space left on device") -> None:
        self.states = {**self.states, "/data/2": Alarm(why, "Free space on that disk.")}

    def fail_upload(self) -> None:
        self.targets = (UploadTarget("http://nn1:9870", failures=4, result="failed", error="no route to host"),)

    def _during(self, observer: Observer) -> None:
        observer.phase("save", 1_000_000)
        observer.advance(250_000)
        self.began.set()
        self.gate.wait(600)


@dataclass
class ShownDaemon:
    """A daemon whose console is served at `url`."""

    role: ShownRole
    service: CheckpointService
    url: str

    def poll(self) -> threading.Thread:
        """Begin a poll in a thread."""
        thread = threading.Thread(target=self.service.poll)
        thread.start()
        return thread

    def find_wrong_quota(self, folder: Path) -> None:
        """Make two images in `folder` that differ in a quota, and record the difference as shadow mode does."""
        images = []
        for name, quota in (("ours", 1000), ("theirs", 10)):
            (folder / name).mkdir()
            builder = ImageBuilder()
            builder.directory("/user").directory.nsQuota = quota
            images.append(builder.save(folder / name))
        with ImageFile.open(images[0]) as ours, ImageFile.open(images[1]) as theirs:
            comparison = ImageComparison(ours, theirs)
            text = difference_line(comparison.named(next(iter(comparison.differences()))))
        entry = HistoryEntry(
            at=time.time(), kind=COMPARISON, text=text, txid=7, target="http://nn1:9870", reason=DIFFERENT
        )
        self.service.history.note(entry)

    def checkpoint(self) -> None:
        """Return a checkpoint without waiting."""
        self.role.journal += TRANSACTIONS
        self.role.gate.set()
        self.service.poll()


class BelowPath:
    """A proxy in front of an application, which removes a path from the start of requests, and refuses requests without
    this path.
    """

    def __init__(self, application: Callable[..., Iterable[bytes]], path: str) -> None:
        self._application = application
        self._path = path

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if not environ["PATH_INFO"].startswith(f"{self._path}/"):
            start_response("502 Bad Gateway", [("Content-Length", "0")])
            return []
        inner = {**environ, "PATH_INFO": environ["PATH_INFO"].removeprefix(self._path)}
        return self._application(inner, start_response)


@contextmanager
def shown_daemon(root: Path, path: str = "", config: CheckpointConfig | None = None) -> Iterator[ShownDaemon]:
    """Serve the console of a daemon, below `path` if there is one; with Kerberos if `config` enables it."""
    role, config = ShownRole(root), config or standby_config()
    security = open_security(config.access, config.kerberos, role.refusals)
    service = CheckpointService(role, config)
    limits = ServingLimits(transfer_options(config), role.counter)
    checks = [CheckRow("age", "OK", "recent"), CheckRow("space", "WARNING", "little space", (), "Free space.")]
    questions = ConsoleQuestions(checks=lambda: checks, peers=list, verify=lambda: checks[:1])
    guard = ChangeGuard()
    blueprints = daemon_blueprints(role, service, config, limits, security.access, guard, questions)
    application: Any = create_application(*blueprints, guard=guard, authenticator=security.authenticator)
    shown = BelowPath(application, path) if path else application
    with HttpServer(shown, "127.0.0.1", 0, header_bytes=security.header_bytes) as server:
        yield ShownDaemon(role, service, f"{server.url}{path}/")


@dataclass
class Opened:
    """A page with its requests, and the messages that the browser logged."""

    page: Page
    requests: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)


def open_page(context: BrowserContext, url: str) -> Opened:
    """Open `url` and keep all requests and messages."""
    opened = Opened(context.new_page())
    opened.page.on("request", lambda request: opened.requests.append(request.url))
    opened.page.on("console", lambda message: opened.logged.append(f"{message.type}: {message.text}"))
    opened.page.on("pageerror", lambda error: opened.logged.append(str(error)))
    opened.page.goto(url)
    return opened


@contextmanager
def context_of(chromium: Browser, **options: Any) -> Iterator[BrowserContext]:
    """Return a new context of the browser, closed at the end."""
    context = chromium.new_context(**{"viewport": DESKTOP, "reduced_motion": "reduce", **options})
    context.set_default_timeout(PATIENCE)
    try:
        yield context
    finally:
        context.close()
