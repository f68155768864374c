"""GSSAPI for pure-sasl through python-gssapi, because pure-sasl itself would need another library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gssapi
from puresasl import QOP, SASLProtocolException
from puresasl.mechanisms import Mechanism, mechanisms

_NO_LAYER = b"\x01\x00\x00\x00"
_CACHE = "MEMORY:zookeeper"


class GssapiMechanism(Mechanism):  # type: ignore[misc]
    """Authentication without a security layer, as ZooKeeper requires (RFC 4752)."""

    name = "GSSAPI"
    score = 100
    qops = (QOP.AUTH,)
    allows_anonymous = False
    uses_plaintext = False
    active_safe = True

    def __init__(self, sasl: Any, principal: str = "", keytab: Path | None = None, **_: Any) -> None:
        super().__init__(sasl)
        own = gssapi.Name(principal, gssapi.NameType.kerberos_principal) if principal else None
        store = {} if keytab is None else {"client_keytab": str(keytab), "ccache": _CACHE}
        self._context = gssapi.SecurityContext(
            name=gssapi.Name(f"{sasl.service}@{sasl.host}", gssapi.NameType.hostbased_service),
            creds=gssapi.Credentials(usage="initiate", name=own, store=store or None),
            mech=gssapi.MechType.kerberos,
            usage="initiate",
        )

    def process(self, challenge: bytes | None = None) -> bytes:
        """Return the response to `challenge`; a `challenge` of None begins the exchange."""
        if not self._context.complete:
            token: bytes | None = self._context.step(challenge or None)
            return token or b""
        offered = self._context.unwrap(challenge or b"").message
        if len(offered) != len(_NO_LAYER) or not offered[0] & _NO_LAYER[0]:
            raise SASLProtocolException("the server requires a security layer")
        self.complete = True
        answer: bytes = self._context.wrap(_NO_LAYER + str(self._context.initiator_name).encode(), False).message
        return answer

    def dispose(self) -> None:
        """Do nothing, because the end of the mechanism releases the context."""


def register() -> None:
    """Register this mechanism with pure-sasl."""
    mechanisms[GssapiMechanism.name] = GssapiMechanism
