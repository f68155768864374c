"""The keys of hadoop-policy.xml that say who may use a protocol, by the simple name of its Java interface."""

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
# the principal of an annotation, which no list replaces: "expected client Kerberos principal is P" in Hadoop 2,
# "this service is only accessible by P" in Hadoop 3
_ONLY = re.compile(r"(?:client Kerberos principal is|only accessible by) (?!null)(\S+)")


def advice_on_refusal(text: str) -> str:
    """What to do about an AuthorizationException that says `text` (ServiceAuthorizationManager)."""
    found = _INTERFACE.search(text)
    protocol = found.group(1) if found else "this protocol"
    only = _ONLY.search(text)
    if only is not None:
        return (
            f"{protocol} is for {only.group(1)} alone there, whatever hadoop-policy.xml says: call as that principal."
        )
    key = POLICY_KEYS.get(protocol, "security.*.protocol.acl")
    return f"See that {key} in hadoop-policy.xml of that server lists our user, and which principal it expects there."
