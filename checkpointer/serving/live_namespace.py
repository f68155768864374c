"""The namespace of a role as a source for WebHDFS and ClientProtocol.

The module authenticates callers, checks their permissions, adds the position to responses, and limits requests.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from http import HTTPStatus

from flask import request

from checkpointer.roles.role import CheckpointRole
from checkpointer.serving.group_cache import GroupCache
from checkpointer.serving.token_logins import TokenLogins
from engine.errors import NamespaceBusyError
from engine.live_browser import LiveBrowser
from engine.read_refusals import STANDBY, standby_refusal
from engine.warm_namespace import WarmNamespace
from hadoop_common.access import system_groups
from image_tools.namespace_browser import NamespaceBrowser
from image_tools.permission_checker import ACCESS_CONTROL, PermissionChecker, ReadRefusedError
from servlets.http_authenticator import request_caller
from servlets.http_request import WAITED
from servlets.webhdfs import WebHdfsCaller
from servlets.webhdfs_answers import WebHdfsRefusedError
from servlets.webhdfs_parameters import TOKEN_PARAMETER, webhdfs_parameters
from site_config.checkpoint_config import CheckpointConfig

_RETRIABLE = "org.apache.hadoop.ipc.RetriableException"
_ANONYMOUS = "dr.who"
"""User of requests without a user name (hadoop.http.staticuser.user)."""
MAX_WAITING = 4
"""Maximum number of requests that wait for a transaction. While an image is loaded or saved, any number may wait."""
MAX_LONG = 4
"""Maximum number of requests that take longer than a batch of a content summary. The limits of long and waiting
requests reserve threads of an RPC address for short calls.
"""
MAX_AHEAD = 10_000_000
"""Maximum number of missing transactions for which a request waits; if more are missing, the request is refused
immediately.
"""
_MAX_KNOWN = 1_000
WAIT_SECONDS = 10.0
SHORT_WAIT_SECONDS = 0.2
"""Duration of a wait for other readers and a few edits, which does not count towards `MAX_WAITING`."""


class LiveNamespace:
    """The warm namespace of a role (`WebHdfsSource`). Any thread may call any method.

    Args:
        role: role that maintains the namespace and reports its lag.
        owner: short name of this process's user, who is a superuser, as the NameNode's user is on a NameNode.
        authenticated: whether callers are authenticated.
        user_of: returns the short name of a principal or raises ValueError; None if the cluster does not use Kerberos.
        groups_of: returns the groups of a user.
        wall: returns seconds since the epoch.

    Attributes:
        tokens: logins with delegation tokens; None if the cluster does not use Kerberos.
    """

    def __init__(
        self,
        role: CheckpointRole,
        namespace: WarmNamespace,
        config: CheckpointConfig,
        *,
        owner: str,
        authenticated: bool,
        user_of: Callable[[str], str] | None = None,
        groups_of: Callable[[str], frozenset[str]] = system_groups,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._role = role
        self._namespace = namespace
        self._config = config
        self._owner = owner
        self._authenticated = authenticated
        self.tokens = None if user_of is None else TokenLogins(self._reading_for, user_of, wall)
        self._groups = GroupCache(groups_of, config.group_cache_seconds)
        # txid of a base image, and clients without an open file in that image
        self._without_files: tuple[int, set[str]] = 0, set()
        self._waiting = threading.BoundedSemaphore(MAX_WAITING)
        self._long = threading.BoundedSemaphore(MAX_LONG)

    # ---- reading -------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self, min_txid: int, waited: float = 0.0) -> Iterator[NamespaceBrowser]:
        """Yield read access when `min_txid` is applied.

        Args:
            waited: seconds that the request has already waited.

        Raises:
            ReadRefusedError: `min_txid` was not applied in time, or too many requests are waiting. The browser also
                raises this error if it pauses while there are too many long requests.
        """
        applied = self._namespace.applied_txid
        if applied is not None and min_txid > applied + MAX_AHEAD:
            raise _retriable(f"transaction {min_txid} is far ahead of the newest applied transaction, {applied}")
        try:
            with ExitStack() as inside:
                yield self._enter_when_free(inside, min_txid, time.monotonic() + WAIT_SECONDS - waited)
        except NamespaceBusyError as error:
            raise _retriable(str(error)) from error

    def _reading_for(self, timeout: float) -> AbstractContextManager[NamespaceBrowser]:
        return self.reading(0, WAIT_SECONDS - timeout)

    def _enter_when_free(self, inside: ExitStack, min_txid: int, deadline: float) -> LiveBrowser:
        gate = self._namespace.gate
        while gate.wait_while_occupied(max(0.0, deadline - time.monotonic())):
            applied = self._namespace.applied_txid
            ready = applied is not None and applied >= min_txid
            browser = self._enter_soon(inside, min_txid) if ready else None
            if browser is not None:
                return browser
            if not gate.occupied:
                return self._wait_to_enter(inside, min_txid, max(0.0, deadline - time.monotonic()))
        raise NamespaceBusyError(WAIT_SECONDS)

    def _enter_soon(self, inside: ExitStack, min_txid: int) -> LiveBrowser | None:
        try:
            return self._enter(inside, min_txid, min(SHORT_WAIT_SECONDS, WAIT_SECONDS))
        except NamespaceBusyError:
            return None

    def _wait_to_enter(self, inside: ExitStack, min_txid: int, timeout: float) -> LiveBrowser:
        """Wait for a transaction; only a few threads may wait, so that most remain available for short reads."""
        if not self._waiting.acquire(blocking=False):
            raise _retriable(f"{MAX_WAITING} requests are already waiting for the namespace; repeat the request")
        try:
            return self._enter(inside, min_txid, timeout)
        finally:
            self._waiting.release()

    def _enter(self, inside: ExitStack, min_txid: int, timeout: float) -> LiveBrowser:
        is_long = False

        def before_pause() -> None:
            nonlocal is_long
            if is_long:
                return
            if not self._long.acquire(blocking=False):
                raise _retriable(f"{MAX_LONG} long requests are already being answered; repeat the request")
            inside.callback(self._long.release)
            is_long = True

        browser = inside.enter_context(self._namespace.reading(min_txid, timeout, WAIT_SECONDS))
        browser.before_pause = before_pause
        return browser

    def headers(self, browser: NamespaceBrowser) -> Mapping[str, str]:
        """Return headers with a response's position: its transaction, and the known number of later transactions."""
        assert isinstance(browser, LiveBrowser)
        lag = self._role.details().tailing_lag_transactions
        return {
            "X-Checkpointer-Txid": str(browser.txid),
            "X-Checkpointer-Lag-Transactions": "unknown" if lag is None else str(lag),
        }

    @property
    def answers_soon(self) -> bool:
        """Whether this node can probably answer reads of the present state without a long wait."""
        if self._namespace.applied_txid is None or self._namespace.gate.occupied:
            return False
        lag = self._role.details().tailing_lag_seconds
        return lag is None or lag <= max(self._config.tail_period, self._config.tail_backoff) + WAIT_SECONDS

    def may_hold_lease(self, client: str) -> bool:
        """Return whether a client may have a file open for writing, according to this node's namespace."""
        if not self.answers_soon:
            return True
        try:
            with self.reading(0) as browser:
                assert isinstance(browser, LiveBrowser)
                base, known = self._without_files
                if base != self._namespace.base_txid or len(known) > _MAX_KNOWN:
                    base, known = self._namespace.base_txid, set()
                if client not in known:
                    if browser.has_open_file_in_base(client):
                        return True
                    self._without_files = base, {*known, client}
                return browser.opened_a_file(client)
        except ReadRefusedError:
            return True

    @property
    def applied_txid(self) -> int | None:
        """Newest applied transaction; None if no image is loaded."""
        return self._namespace.applied_txid

    # ---- callers -------------------------------------------------------------------------------------------

    def permissions(self, user: str) -> PermissionChecker:
        groups = self._groups.of(user)
        superuser = user == self._owner or self._config.supergroup in groups
        return PermissionChecker(user, groups, superuser, self._config.permissions)

    def caller(self) -> WebHdfsCaller:
        sent = webhdfs_parameters()
        refused = {"doas"} if self.tokens is not None else {"doas", TOKEN_PARAMETER}
        for name in sorted(refused & sent.keys()):
            raise WebHdfsRefusedError(HTTPStatus.FORBIDDEN, ACCESS_CONTROL, f"this node does not accept {name}=")
        token = sent.get(TOKEN_PARAMETER)
        if self.tokens is not None and token is not None:
            user = self.tokens.user_of_text(token, WAIT_SECONDS - request.environ.get(WAITED, 0.0))
        elif self._authenticated:
            known = request_caller()
            if known is None or not known.principal:
                what = "this node answers reads of the namespace only after a Kerberos login"
                raise WebHdfsRefusedError(HTTPStatus.FORBIDDEN, ACCESS_CONTROL, what)
            user = known.users[0]
        else:
            user = sent.get("user.name", _ANONYMOUS)
        return WebHdfsCaller(user, self.permissions(user))

    def refuse(self, method: str, operation: str) -> WebHdfsRefusedError:
        """Return a refusal that makes clients of an HA pair call the other NameNode."""
        return WebHdfsRefusedError(HTTPStatus.FORBIDDEN, STANDBY, standby_refusal(f"{method} {operation}"))


def _retriable(what: str) -> ReadRefusedError:
    return ReadRefusedError(_RETRIABLE, what)
