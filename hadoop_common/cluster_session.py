"""HTTP to servers of this cluster."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from hadoop_common.tls.errors import HandshakeError
from hadoop_common.tls.process import context_for


class ClusterSession(requests.Session):
    """Without the proxies and .netrc of the environment, which are for other traffic; a redirection is an answer.

    A session of the library would read the whole body of a redirection, however long, even where it does not follow.
    Over https the configuration says whom to trust.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False
        self.mount("https://", _TlsAdapter())

    def get_redirect_target(self, resp: requests.Response) -> None:
        """There is none."""


class _TlsAdapter(HTTPAdapter):
    """Takes the contexts of this process, where the library would add the issuers of its own."""

    def build_connection_pool_key_attributes(self, request: Any, verify: Any, cert: Any = None) -> Any:
        host, _ = super().build_connection_pool_key_attributes(request, verify, cert)
        try:
            context = context_for(urlsplit(request.url).hostname or "")
        except HandshakeError as fault:
            raise requests.exceptions.SSLError(fault, request=request) from fault
        # None has the library compare what the context does; False compares nothing
        check = None if context.check_hostname else False
        return host, {"cert_reqs": "CERT_REQUIRED", "ssl_context": context, "assert_hostname": check}

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """The context does."""
