"""Identity of delegation tokens in the SECRET_MANAGER section."""

from __future__ import annotations

from image_format.proto import fsimage_pb2 as pb


def token_identity(token: pb.PersistToken) -> tuple[object, ...]:
    """Return the fields that identify a token (AbstractDelegationTokenIdentifier.equals)."""
    return (
        token.owner,
        token.renewer,
        token.realUser,
        token.issueDate,
        token.maxDate,
        token.sequenceNumber,
        token.masterKeyId,
    )
