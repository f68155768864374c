"""Read-only WebHDFS of a namespace: an image (`hdfs oiv -p Web`), or the namespace that a daemon keeps up to date."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from http import HTTPStatus
from typing import Final, NamedTuple, Protocol

from flask import Blueprint, Response, request
from flask.blueprints import BlueprintSetupState
from werkzeug.routing import PathConverter

from hadoop_common.errors import HdfsError
from image_tools.namespace_browser import NamespaceBrowser
from image_tools.namespace_reads import FILE_NOT_FOUND, parse_long
from image_tools.permission_checker import PermissionChecker, ReadRefusedError
from servlets.http_authenticator import TOKEN_BLUEPRINT
from servlets.http_request import WAITED
from servlets.webhdfs_answers import JsonObject, ListedPage, WebHdfsRefusedError, WebHdfsView, bad_parameter
from servlets.webhdfs_parameters import webhdfs_parameters

_LOG = logging.getLogger(__name__)

_PREFIX: Final = "/webhdfs/v1"
_JSON: Final = "application/json; charset=utf-8"
_METHODS: Final = ["GET", "PUT", "POST", "DELETE"]


class WebHdfsSource(Protocol):
    """A namespace that WebHDFS serves."""

    def reading(self, min_txid: int, waited: float = 0.0) -> AbstractContextManager[NamespaceBrowser]:
        """Return read access to the namespace, once it has applied `min_txid`.

        Args:
            waited: seconds that the request has already waited; they count towards the time limit.

        Raises:
            ReadRefusedError: the namespace is not available within a time limit.
        """

    def caller(self) -> WebHdfsCaller:
        """Return the caller of the current request; raise WebHdfsRefusedError if the caller is unknown."""

    def headers(self, browser: NamespaceBrowser) -> Mapping[str, str]:
        """Return headers for a response that was read from `browser`."""

    def refuse(self, method: str, operation: str) -> WebHdfsRefusedError:
        """Return the refusal of an operation that this source does not support."""


class WebHdfsCaller(NamedTuple):
    """The caller of a request; if permissions are not checked, any user may see everything."""

    user: str
    permissions: PermissionChecker | None = None


class ImageSource:
    """An image as a source; it never changes and has no users (`WebHdfsSource`)."""

    def __init__(self, browser: NamespaceBrowser) -> None:
        self._browser = browser

    def reading(self, min_txid: int, waited: float = 0.0) -> AbstractContextManager[NamespaceBrowser]:
        return nullcontext(self._browser)

    def caller(self) -> WebHdfsCaller:
        return WebHdfsCaller(webhdfs_parameters().get("user.name", "dr.who"))

    def headers(self, browser: NamespaceBrowser) -> Mapping[str, str]:
        return {}

    def refuse(self, method: str, operation: str) -> WebHdfsRefusedError:
        if method == "GET":
            what = f"No enum constant {operation}; an image contains only inodes"
            return bad_parameter("op", what)
        what = "an image can only be read"
        return WebHdfsRefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "java.lang.UnsupportedOperationException", what)


def webhdfs_blueprint(source: WebHdfsSource) -> Blueprint:
    """Return the blueprint of GET /webhdfs/v1/PATH?op=OPERATION.

    GETFILESTATUS, LISTSTATUS, LISTSTATUS_BATCH, GETCONTENTSUMMARY, GETQUOTAUSAGE, GETSTORAGEPOLICY, GETACLSTATUS,
    GETXATTRS, LISTXATTRS and GETHOMEDIRECTORY are supported, and GETSERVERDEFAULTS for an image; other operations are
    refused. Paths may lead into snapshots (`.snapshot/NAME`) and begin at an inode (`/.reserved/.inodes/ID`). A
    refusal is a RemoteException as JSON, with Hadoop's status. With `min_txid`, the response waits until the namespace
    has applied that transaction.
    """
    blueprint = Blueprint(TOKEN_BLUEPRINT, __name__)
    blueprint.record_once(_register_converter)

    @blueprint.route(_PREFIX, methods=_METHODS)
    @blueprint.route(f"{_PREFIX}/", methods=_METHODS)
    @blueprint.route(f"{_PREFIX}/<anything:path>", methods=_METHODS)
    def answer(path: str = "") -> Response:
        operation = webhdfs_parameters().get("op", "").upper()
        if request.method != "GET":
            raise source.refuse(request.method, operation)
        # the path is handled as bytes, because names need not be valid UTF-8
        raw = request.environ["PATH_INFO"].encode("latin-1")[len(_PREFIX) :]
        return _answer(source, operation, raw.rstrip(b"/"))

    @blueprint.errorhandler(WebHdfsRefusedError)
    def refused(fault: WebHdfsRefusedError) -> Response:
        return _remote(fault.status, fault.exception, str(fault))

    @blueprint.errorhandler(ReadRefusedError)
    def denied(fault: ReadRefusedError) -> Response:
        status = HTTPStatus.NOT_FOUND if fault.java_class == FILE_NOT_FOUND else HTTPStatus.FORBIDDEN
        return _remote(status, fault.java_class, str(fault))

    @blueprint.errorhandler(HdfsError)
    def damaged(fault: HdfsError) -> Response:
        _LOG.error("%s %s failed: %s", request.method, request.path, fault)
        return _remote(HTTPStatus.FORBIDDEN, "java.io.IOException", str(fault))

    return blueprint


def _min_txid() -> int:
    text = webhdfs_parameters().get("min_txid", "0")
    txid = parse_long(text)
    if txid is None:
        raise bad_parameter("min_txid", f"{text} is not a transaction id")
    return txid


def _answer(source: WebHdfsSource, operation: str, path: bytes) -> Response:
    min_txid, caller = _min_txid(), source.caller()
    if operation == "GETHOMEDIRECTORY":
        return Response(json.dumps({"Path": f"/user/{caller.user}"}), content_type=_JSON)
    with source.reading(min_txid, request.environ.get(WAITED, 0.0)) as browser:
        found = WebHdfsView(browser, caller.permissions).answer(operation, path)
        headers = source.headers(browser)
    if found is None:
        raise source.refuse(request.method, operation)
    if isinstance(found, ListedPage):
        body: str | Iterator[str] = _listing(source, caller, path, found)
    else:
        body = json.dumps(found, ensure_ascii=False)
    return Response(body, content_type=_JSON, headers=dict(headers))


def _listing(source: WebHdfsSource, caller: WebHdfsCaller, path: bytes, page: ListedPage) -> Iterator[str]:
    """Yield the response to LISTSTATUS, beginning with `page`; lock the namespace for one page at a time."""
    yield '{"FileStatuses":{"FileStatus":[\n'
    yield ",\n".join(map(_text, page.statuses))
    while page.behind is not None:
        with source.reading(0) as browser:
            page = WebHdfsView(browser, caller.permissions).page(path, page.behind)
        yield "".join(f",\n{_text(status)}" for status in page.statuses)
    yield "\n]}}\n"


def _text(status: JsonObject) -> str:
    return json.dumps(status, ensure_ascii=False)


class _AnythingConverter(PathConverter):
    """Converter like `path`, except that names may contain a line feed."""

    regex = r"(?s:[^/].*?)"


def _register_converter(state: BlueprintSetupState) -> None:
    state.app.url_map.converters["anything"] = _AnythingConverter


def _remote(status: HTTPStatus, exception: str, message: str) -> Response:
    content = {"exception": exception.rpartition(".")[2], "javaClassName": exception, "message": message}
    return Response(json.dumps({"RemoteException": content}), status, content_type=_JSON)
