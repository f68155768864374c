"""HTTP requests to servers of this cluster, with a bound on the size of answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from hadoop_common.tls.errors import HandshakeError
from hadoop_common.tls.process import context_for


class ClusterSession(requests.Session):
    """A session that ignores proxies and .netrc of the environment and treats a redirection as an answer.

    The library's own session would read the whole body of a redirection, however long, even without following it. Over
    https, Hadoop's configuration decides which certificates are trusted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False
        self.mount("https://", _TlsAdapter())

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None: redirections are not followed."""


class _TlsAdapter(HTTPAdapter):
    """An adapter that uses the TLS contexts of this process, without the library's own certificate authorities."""

    def build_connection_pool_key_attributes(self, request: Any, verify: Any, cert: Any = None) -> Any:
        host, _ = super().build_connection_pool_key_attributes(request, verify, cert)
        try:
            context = context_for(urlsplit(request.url).hostname or "")
        except HandshakeError as fault:
            raise requests.exceptions.SSLError(fault, request=request) from fault
        # None lets urllib3 check the host name as the context does; False disables the check
        check = None if context.check_hostname else False
        return host, {"cert_reqs": "CERT_REQUIRED", "ssl_context": context, "assert_hostname": check}

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """Do nothing: the context verifies the certificate."""


_MAX_BYTES = 1 << 20


class HttpAnswer(NamedTuple):
    """An answer; `content` ends after 1 MiB, however much the server sends; `challenge` is its WWW-Authenticate
    header.
    """

    status: int
    content: bytes
    challenge: str = ""

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace").strip()

    @property
    def json(self) -> Any:
        """The JSON value, None if the content is not JSON."""
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            return None


def send_request(
    method: str,
    url: str,
    *,
    query: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | tuple[float, float | None],
) -> HttpAnswer:
    """Send a request without a body; redirections are answers.

    Args:
        timeout: seconds for the connection and for each wait, or for each of the two.

    Raises:
        requests.RequestException, urllib3.exceptions.HTTPError, OSError: there is no answer.
    """
    with (
        ClusterSession() as session,
        session.request(method, url, params=query, headers=headers, timeout=timeout, stream=True) as answer,
    ):
        content = answer.raw.read(_MAX_BYTES, decode_content=True)
        return HttpAnswer(answer.status_code, content, answer.headers.get("WWW-Authenticate", ""))
