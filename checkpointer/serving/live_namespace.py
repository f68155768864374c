"""The namespace of a role as the source of WebHDFS: its callers, their permissions, its position, and its limits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus

from flask import request

from checkpointer.roles.role import CheckpointRole
from engine.errors import NamespaceBusyError
from engine.live_browser import LiveBrowser
from engine.warm_namespace import WarmNamespace
from hadoop_common.access import system_groups
from image_tools.namespace_browser import NamespaceBrowser
from image_tools.permission_checker import ACCESS_CONTROL, PermissionChecker
from servlets.http_authenticator import request_caller
from servlets.webhdfs import WebHdfsCaller
from servlets.webhdfs_view import WebHdfsRefusedError
from site_config.checkpoint_config import CheckpointConfig

STANDBY = "org.apache.hadoop.ipc.StandbyException"
_RETRIABLE = "org.apache.hadoop.ipc.RetriableException"
_ANONYMOUS = "dr.who"
"""User of requests without a name (hadoop.http.staticuser.user)."""
MAX_READERS = 16
"""Requests that read, or wait for a transaction, at once; half of the web server's threads stay for images."""
WAIT_SECONDS = 10.0


class LiveNamespace:
    """The warm namespace of a role (`WebHdfsSource`); any thread may call its methods.

    Args:
        role: reports how far its namespace lags.
        owner: short name of this process, which is a superuser as the NameNode's own user is.
        authenticated: whether callers prove their names.
        groups_of: returns the groups of a user.
    """

    def __init__(
        self,
        role: CheckpointRole,
        namespace: WarmNamespace,
        config: CheckpointConfig,
        *,
        owner: str,
        authenticated: bool,
        groups_of: Callable[[str], frozenset[str]] = system_groups,
    ) -> None:
        self._role = role
        self._namespace = namespace
        self._config = config
        self._owner = owner
        self._authenticated = authenticated
        self._groups_of = groups_of
        self._readers = threading.BoundedSemaphore(MAX_READERS)

    # ---- reading -------------------------------------------------------------------------------------------

    @contextmanager
    def opened(self, min_txid: int) -> Iterator[LiveBrowser]:
        """Yield read access once `min_txid` is applied.

        Raises:
            NamespaceBusyError: that did not happen in time, or too many requests read at once.
        """
        if not self._readers.acquire(timeout=WAIT_SECONDS):
            raise NamespaceBusyError(WAIT_SECONDS)
        try:
            with self._namespace.reading(min_txid, WAIT_SECONDS) as browser:
                yield browser
        finally:
            self._readers.release()

    @contextmanager
    def reading(self, min_txid: int) -> Iterator[NamespaceBrowser]:
        """Do the same for WebHDFS: raise WebHdfsRefusedError."""
        try:
            with self.opened(min_txid) as browser:
                yield browser
        except NamespaceBusyError as error:
            raise WebHdfsRefusedError(HTTPStatus.FORBIDDEN, _RETRIABLE, str(error)) from error

    def headers(self, browser: NamespaceBrowser) -> Mapping[str, str]:
        """Return the position of an answer: its transaction, and how far that lags as far as this node knows."""
        assert isinstance(browser, LiveBrowser)
        lag = self._role.details().tailing_lag_transactions
        return {
            "X-Checkpointer-Txid": str(browser.txid),
            "X-Checkpointer-Lag-Transactions": "unknown" if lag is None else str(lag),
        }

    # ---- callers -------------------------------------------------------------------------------------------

    def permissions(self, user: str) -> PermissionChecker:
        """Return the permissions of a user."""
        groups = self._groups_of(user)
        allowed = not self._config.permissions or user == self._owner or self._config.supergroup in groups
        return PermissionChecker(user, groups, allowed)

    def caller(self) -> WebHdfsCaller:
        """Return the caller of the current request.

        Raises:
            WebHdfsRefusedError: it proved no name, or wants to act for another user.
        """
        for name in ("doas", "delegation"):
            if name in request.args:
                raise WebHdfsRefusedError(HTTPStatus.FORBIDDEN, ACCESS_CONTROL, f"this node does not accept {name}=")
        if self._authenticated:
            known = request_caller()
            if known is None or not known.principal:
                what = "this node answers reads of the namespace only after a Kerberos login"
                raise WebHdfsRefusedError(HTTPStatus.FORBIDDEN, ACCESS_CONTROL, what)
            user = known.users[0]
        else:
            user = request.args.get("user.name", _ANONYMOUS)
        return WebHdfsCaller(user, self.permissions(user))

    def refuse(self, method: str, operation: str) -> WebHdfsRefusedError:
        """Return a refusal that makes clients of an HA pair ask the other NameNode."""
        return WebHdfsRefusedError(HTTPStatus.FORBIDDEN, STANDBY, refusal(f"{method} {operation}"))


def refusal(action: str) -> str:
    """Return the message for a change, or a read of what only a NameNode knows."""
    return (
        f"{action} is not supported in state standby: this node only lists and describes files; it knows no block "
        "locations and makes no changes. Ask the active NameNode."
    )
