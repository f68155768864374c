"""URIs for a moment or a transaction range of an archive; the driver resolves them to files.

This module is separate from `pipeline.staged_archive`, because only the driver imports that module.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from urllib.parse import quote, unquote

from hadoop_common.addresses import uri_scheme

_SCHEME = "checkpointer-archive"


@dataclass(frozen=True, slots=True)
class ArchiveQuery:
    """A selection of an archive's content.

    Attributes:
        location: directory or URL of the archive.
        as_of: transaction id or time, as text; "" for the newest moment.
        branch: the branch; "" if the archive has only one.
        key_file: path, on the driver, of the key of an encrypted archive; "" if the archive is not encrypted.
        tokens: whether the restored image contains delegation tokens and their keys.
        from_txid, to_txid: first and last transaction of the edits.
    """

    location: str
    as_of: str = ""
    branch: str = ""
    key_file: str = ""
    tokens: bool = False
    from_txid: int | None = None
    to_txid: int | None = None

    @property
    def uri(self) -> str:
        return f"{_SCHEME}:{quote(json.dumps(asdict(self)), safe='')}"

    @classmethod
    def parse(cls, uri: str) -> ArchiveQuery | None:
        """Return the query of a URI; None for other URIs."""
        if uri_scheme(uri) != _SCHEME:
            return None
        return cls(**json.loads(unquote(uri.partition(":")[2])))
