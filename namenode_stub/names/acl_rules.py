"""Changes to ACLs (AclTransformation): pure functions over complete lists of entries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from hadoop_rpc.client_values import AclEntryView
from image_format.permission import AclScope, AclType
from namenode_stub.refusals import OperationRefusedError

_MAX_ENTRIES = 32
_ALWAYS = (AclType.USER, AclType.GROUP, AclType.OTHER)
Key = tuple[int, int, str]


class AclRefusedError(OperationRefusedError):
    """A change to an ACL that the rules do not allow."""

    java_class = "org.apache.hadoop.hdfs.protocol.AclException"


def _key(entry: AclEntryView) -> Key:
    """Return the identity of an entry, which also determines its order."""
    return entry.scope, entry.type, entry.name


def replaced(existing: Sequence[AclEntryView], spec: Sequence[AclEntryView]) -> list[AclEntryView]:
    """Return the entries after a replacement by `spec`; scopes without entries in `spec` are unchanged."""
    _check_spec(spec)
    scopes = {entry.scope for entry in spec}
    return _complete([*spec, *(entry for entry in existing if entry.scope not in scopes)], spec, scopes)


def merged(existing: Sequence[AclEntryView], spec: Sequence[AclEntryView]) -> list[AclEntryView]:
    """Return the existing entries, with the entries of `spec` changed or added."""
    _check_spec(spec)
    new = {_key(entry) for entry in spec}
    kept = [entry for entry in existing if _key(entry) not in new]
    return _complete([*kept, *spec], spec, {entry.scope for entry in spec})


def filtered(existing: Sequence[AclEntryView], spec: Sequence[AclEntryView]) -> list[AclEntryView]:
    """Return the existing entries without the entries of `spec`; ignore permissions in `spec`."""
    _check_spec(spec)
    keys = {_key(entry) for entry in spec}
    gone = [entry for entry in existing if _key(entry) in keys]
    kept = [entry for entry in existing if _key(entry) not in keys]
    return _complete(kept, gone, {entry.scope for entry in gone})


def without_defaults(existing: Sequence[AclEntryView]) -> list[AclEntryView]:
    """Return the existing entries of the access ACL."""
    return _checked([entry for entry in existing if entry.scope == AclScope.ACCESS])


def _check_spec(spec: Sequence[AclEntryView]) -> None:
    if len(spec) > _MAX_ENTRIES:
        raise AclRefusedError(
            f"Invalid ACL: ACL spec has {len(spec)} entries, which exceeds maximum of {_MAX_ENTRIES}."
        )
    _check_unique(spec)


def _check_unique(entries: Sequence[AclEntryView]) -> None:
    if len({_key(entry) for entry in entries}) < len(entries):
        raise AclRefusedError("Invalid ACL: multiple entries with same scope, type and name.")


def _complete(
    entries: Sequence[AclEntryView], changed: Iterable[AclEntryView], scopes: Collection[int]
) -> list[AclEntryView]:
    """Add implied entries: missing default entries, and the masks.

    Args:
        changed: entries to change or remove.
        scopes: scopes of these entries.
    """
    masks = {entry.scope: entry for entry in entries if entry.type == AclType.MASK}
    dirty = {entry.scope for entry in changed if entry.type == AclType.MASK}
    found = [entry for entry in entries if entry.type != AclType.MASK]
    found += _default_entries(found)
    for scope in {entry.scope for entry in found}:
        mask = _mask(scope, found, masks.get(scope), scope in dirty, scope in scopes)
        found += [] if mask is None else [mask]
    return _checked(found)


def _default_entries(entries: Sequence[AclEntryView]) -> list[AclEntryView]:
    """Return the entries of owner, group and others that a default ACL lacks, copied from the access ACL."""
    if all(entry.scope == AclScope.ACCESS for entry in entries):
        return []
    keys = {_key(entry) for entry in entries}
    return [
        AclEntryView(AclScope.DEFAULT, entry.type, "", entry.permission)
        for entry in entries
        if entry.scope == AclScope.ACCESS and not entry.name and (AclScope.DEFAULT, entry.type, "") not in keys
    ]


def _mask(
    scope: int, entries: Sequence[AclEntryView], given: AclEntryView | None, is_dirty: bool, is_changed: bool
) -> AclEntryView | None:
    """Return the mask of one scope: the given mask, or the union of the entries that a mask limits; None if no mask is
    needed.
    """
    limited = [e for e in entries if e.scope == scope and (e.type == AclType.GROUP or e.name)]
    is_needed = any(entry.name for entry in limited)
    if given is None and is_needed and is_dirty:
        raise AclRefusedError("Invalid ACL: mask is required and cannot be deleted.")
    if given is not None and (is_dirty or not is_changed):
        return given
    if given is None and not is_needed:
        return None
    union = 0
    for entry in limited:
        union |= entry.permission
    return AclEntryView(scope, AclType.MASK, "", union)


def _checked(entries: Sequence[AclEntryView]) -> list[AclEntryView]:
    """Validate the entries and return them in Hadoop's order."""
    if len(entries) > _MAX_ENTRIES:
        raise AclRefusedError(f"Invalid ACL: ACL has {len(entries)} entries, which exceeds maximum of {_MAX_ENTRIES}.")
    _check_unique(entries)
    keys = {_key(entry) for entry in entries}
    for entry in entries:
        if entry.name and entry.type in (AclType.MASK, AclType.OTHER):
            raise AclRefusedError(f"Invalid ACL: this entry type must not have a name: {entry.name}.")
    for scope in {AclScope.ACCESS, *(entry.scope for entry in entries)}:
        if any((scope, kind, "") not in keys for kind in _ALWAYS):
            which = "default ACL" if scope == AclScope.DEFAULT else "ACL"
            raise AclRefusedError(f"Invalid {which}: the user, group and other entries are required.")
    return sorted(entries, key=_key)
