"""HTTP requests to servers of this cluster."""

from __future__ import annotations

from typing import Any
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
