"""Keys of hadoop-policy.xml for access to protocols, by the simple name of the Java interface."""

from __future__ import annotations

import re
from types import MappingProxyType

POLICY_KEYS = MappingProxyType(
    {
        "ClientProtocol": "security.client.protocol.acl",
        "NamenodeProtocol": "security.namenode.protocol.acl",
        "HAServiceProtocol": "security.ha.service.protocol.acl",
        "ZKFCProtocol": "security.zkfc.protocol.acl",
        "QJournalProtocol": "security.qjournal.service.protocol.acl",
        "InterQJournalProtocol": "security.interqjournal.service.protocol.acl",
    }
)
_INTERFACE = re.compile(r"protocol (?:interface )?[\w.]*?(\w+)(?:$|[:;, ])")
# the principal that an annotation in Hadoop's code requires, and that no access list overrides: "expected client
# Kerberos principal is P" in Hadoop 2, "this service is only accessible by P" in Hadoop 3
_ONLY = re.compile(r"(?:client Kerberos principal is|only accessible by) (?!null)(\S+)")


def advice_on_refusal(text: str) -> str:
    """Return the hint for an AuthorizationException with the message `text` (ServiceAuthorizationManager)."""
    found = _INTERFACE.search(text)
    protocol = found.group(1) if found else "this protocol"
    only = _ONLY.search(text)
    if only is not None:
        return (
            f"Call as {only.group(1)}: {protocol} of that server allows only this principal, regardless of "
            "hadoop-policy.xml. "
            "_HOST in a principal is the name that the server finds for the address of the call: if the name is not "
            "ours, correct the reverse DNS entry of that address."
        )
    key = POLICY_KEYS.get(protocol, "security.*.protocol.acl")
    return (
        f"Check that {key} in hadoop-policy.xml of that server lists our user, and which principal the server expects."
    )
