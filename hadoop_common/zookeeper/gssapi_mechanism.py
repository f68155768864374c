"""GSSAPI for pure-sasl by python-gssapi, as the rest of this program has it; pure-sasl's own needs another library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gssapi
from puresasl import QOP, SASLProtocolException
from puresasl.mechanisms import Mechanism, mechanisms

_NO_LAYER = b"\x01\x00\x00\x00"
_CACHE = "MEMORY:zookeeper"


class GssapiMechanism(Mechanism):  # type: ignore[misc]
    """Authentication alone, as ZooKeeper has it (RFC 4752)."""

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
        """The answer to `challenge`, None where nothing was said yet."""
        if not self._context.complete:
            token: bytes | None = self._context.step(challenge or None)
            return token or b""
        offered = self._context.unwrap(challenge or b"").message
        if len(offered) != len(_NO_LAYER) or not offered[0] & _NO_LAYER[0]:
            raise SASLProtocolException("the server offers no connection without a layer of security")
        self.complete = True
        answer: bytes = self._context.wrap(_NO_LAYER + str(self._context.initiator_name).encode(), False).message
        return answer

    def dispose(self) -> None:
        """The context goes with the mechanism."""


def register() -> None:
    """Make pure-sasl use it."""
    mechanisms[GssapiMechanism.name] = GssapiMechanism
