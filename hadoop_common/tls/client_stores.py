"""Key stores of a client that are named by separate configuration keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStores:
    """Stores that are named one by one, not in ssl-client.xml.

    Attributes:
        key_store: None if the client shows no certificate.
        trust_store: None to use the system's certificate authorities.
        keys: common prefix of the configuration keys, for hints.
    """

    key_store: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    trust_store: Path | None = None
    trust_password: str | None = field(default=None, repr=False)
    keys: str = ""
