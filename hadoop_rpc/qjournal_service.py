"""QJournalProtocol and InterQJournalProtocol as services of an `RpcServer`, on top of any `QJournal`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import Message

from hadoop_common.access import Right
from hadoop_common.java_numbers import signed64, unsigned64
from hadoop_rpc.namenode_messages import storage_message
from hadoop_rpc.proto import qjournal_protocol_pb2 as pb
from hadoop_rpc.qjournal_messages import (
    journal_state_message,
    journaled_edits_message,
    namespace_of,
    node_manifest_message,
    prepared_message,
    request_info_of,
    segment_of,
    storage_of,
)
from hadoop_rpc.qjournal_values import InterQJournal, QJournal
from hadoop_rpc.rpc_protocol import MethodHandler, RpcProtocol, ServerKind
from hadoop_rpc.service import CallContext, Service

QJOURNAL_PROTOCOL: Final = RpcProtocol(
    "org.apache.hadoop.hdfs.qjournal.protocol.QJournalProtocol",
    pb.DESCRIPTOR.services_by_name["QJournalProtocolService"],
    ServerKind.JOURNALNODE,
)
INTER_QJOURNAL_PROTOCOL: Final = RpcProtocol(
    "org.apache.hadoop.hdfs.qjournal.protocol.InterQJournalProtocol",
    pb.DESCRIPTOR.services_by_name["InterQJournalProtocolService"],
    ServerKind.JOURNALNODE,
)

_LAYOUT_OF_THE_SILENT = -63  # the layout that Hadoop 2.7 assumes if a writer older than Hadoop 2.4 sends no layout

_READING = frozenset(
    {
        "isFormatted",
        "getJournalState",
        "getEditLogManifest",
        "getJournaledEdits",
        "getJournalCTime",
        "canRollBack",
        "getEditLogManifestFromJournal",
        "getStorageInfo",
    }
)

NameserviceListener = Callable[[str, str], None]


def _nobody(_journal_id: str, _nameservice: str) -> None:
    return


def right_of(method: str) -> Right:
    """Return the right that a method of either protocol requires; an unknown method counts as a change."""
    return Right.READ if method in _READING else Right.CHANGE


def qjournal_service(node: QJournal, on_nameservice: NameserviceListener = _nobody) -> Service:
    """Return QJournalProtocol of `node` as a service.

    Args:
        on_nameservice: called before each call that contains a nameservice (Hadoop 3), with the journal's id and the
            nameservice.
    """
    methods = _whole_journal(node) | _writing(node) | _reading(node) | _upgrades(node)
    return QJOURNAL_PROTOCOL.served_by({name: _reporting(each, on_nameservice) for name, each in methods.items()})


def inter_qjournal_service(node: InterQJournal, on_nameservice: NameserviceListener = _nobody) -> Service:
    """Return InterQJournalProtocol of `node` (Hadoop 3) as a service; `on_nameservice` has the same meaning as in
    `qjournal_service`.
    """

    def storage_info(request: pb.GetStorageInfoRequestProto, _: CallContext) -> Message:
        return storage_message(node.get_storage_info(request.jid.identifier))

    methods = {"getEditLogManifestFromJournal": _manifest(node), "getStorageInfo": storage_info}
    return INTER_QJOURNAL_PROTOCOL.served_by({name: _reporting(each, on_nameservice) for name, each in methods.items()})


def _reporting(handler: MethodHandler, on_nameservice: NameserviceListener) -> MethodHandler:
    def report_and_handle(request: Any, caller: CallContext) -> Message | None:
        source = request.reqInfo if "reqInfo" in request.DESCRIPTOR.fields_by_name else request
        for field, value in source.ListFields():
            if field.name.lower() == "nameserviceid":  # DoRollbackRequestProto spells the name differently
                on_nameservice((request.jid if source is request else source.journalId).identifier, value)
        return handler(request, caller)

    return report_and_handle


def _whole_journal(node: QJournal) -> dict[str, MethodHandler]:
    def is_formatted(request: pb.IsFormattedRequestProto, _: CallContext) -> Message:
        return pb.IsFormattedResponseProto(isFormatted=node.is_formatted(request.jid.identifier))

    def format_(request: pb.FormatRequestProto, _: CallContext) -> None:
        # Hadoop 2 does not send `force`, because its NameNode has already asked the operator, and its nodes always
        # format
        force = request.force or not request.HasField("force")
        node.format(request.jid.identifier, namespace_of(request.nsInfo), force=force)

    def state(request: pb.GetJournalStateRequestProto, _: CallContext) -> Message:
        return journal_state_message(node.get_journal_state(request.jid.identifier))

    def new_epoch(request: pb.NewEpochRequestProto, _: CallContext) -> Message:
        last = node.new_epoch(request.jid.identifier, namespace_of(request.nsInfo), signed64(request.epoch))
        return pb.NewEpochResponseProto(lastSegmentTxId=None if last is None else unsigned64(last))

    return {"isFormatted": is_formatted, "format": format_, "getJournalState": state, "newEpoch": new_epoch}


def _writing(node: QJournal) -> dict[str, MethodHandler]:
    def start(request: pb.StartLogSegmentRequestProto, _: CallContext) -> None:
        layout = request.layoutVersion if request.HasField("layoutVersion") else _LAYOUT_OF_THE_SILENT
        node.start_log_segment(request_info_of(request.reqInfo), signed64(request.txid), layout)

    def journal(request: pb.JournalRequestProto, _: CallContext) -> None:
        segment, first = signed64(request.segmentTxnId), signed64(request.firstTxnId)
        node.journal(request_info_of(request.reqInfo), segment, first, request.numTxns, request.records)

    def heartbeat(request: pb.HeartbeatRequestProto, _: CallContext) -> None:
        node.heartbeat(request_info_of(request.reqInfo))

    def finalize(request: pb.FinalizeLogSegmentRequestProto, _: CallContext) -> None:
        first, last = signed64(request.startTxId), signed64(request.endTxId)
        node.finalize_log_segment(request_info_of(request.reqInfo), first, last)

    def purge(request: pb.PurgeLogsRequestProto, _: CallContext) -> None:
        node.purge_logs(request_info_of(request.reqInfo), signed64(request.minTxIdToKeep))

    def prepare(request: pb.PrepareRecoveryRequestProto, _: CallContext) -> Message:
        prepared = node.prepare_recovery(request_info_of(request.reqInfo), signed64(request.segmentTxId))
        return prepared_message(prepared)

    def accept(request: pb.AcceptRecoveryRequestProto, _: CallContext) -> None:
        node.accept_recovery(request_info_of(request.reqInfo), segment_of(request.stateToAccept), request.fromURL)

    return {
        "startLogSegment": start,
        "journal": journal,
        "heartbeat": heartbeat,
        "finalizeLogSegment": finalize,
        "purgeLogs": purge,
        "prepareRecovery": prepare,
        "acceptRecovery": accept,
    }


def _manifest(node: QJournal | InterQJournal) -> MethodHandler:
    def manifest(request: pb.GetEditLogManifestRequestProto, _: CallContext) -> Message:
        since = signed64(request.sinceTxId)
        found = node.get_edit_log_manifest(request.jid.identifier, since, in_progress_ok=request.inProgressOk)
        return node_manifest_message(found)

    return manifest


def _reading(node: QJournal) -> dict[str, MethodHandler]:
    def edits(request: pb.GetJournaledEditsRequestProto, _: CallContext) -> Message:
        since = signed64(request.sinceTxId)
        return journaled_edits_message(node.get_journaled_edits(request.jid.identifier, since, request.maxTxns))

    return {"getEditLogManifest": _manifest(node), "getJournaledEdits": edits}


def _upgrades(node: QJournal) -> dict[str, MethodHandler]:
    def ctime(request: pb.GetJournalCTimeRequestProto, _: CallContext) -> Message:
        return pb.GetJournalCTimeResponseProto(resultCTime=node.get_journal_ctime(request.jid.identifier))

    def pre_upgrade(request: pb.DoPreUpgradeRequestProto, _: CallContext) -> None:
        node.do_pre_upgrade(request.jid.identifier)

    def upgrade(request: pb.DoUpgradeRequestProto, _: CallContext) -> None:
        node.do_upgrade(request.jid.identifier, storage_of(request.sInfo))

    def finalize(request: pb.DoFinalizeRequestProto, _: CallContext) -> None:
        node.do_finalize(request.jid.identifier)

    def can_roll_back(request: pb.CanRollBackRequestProto, _: CallContext) -> Message:
        storage, previous = storage_of(request.storage), storage_of(request.prevStorage)
        possible = node.can_roll_back(request.jid.identifier, storage, previous, request.targetLayoutVersion)
        return pb.CanRollBackResponseProto(canRollBack=possible)

    def roll_back(request: pb.DoRollbackRequestProto, _: CallContext) -> None:
        node.do_rollback(request.jid.identifier)

    def discard(request: pb.DiscardSegmentsRequestProto, _: CallContext) -> None:
        node.discard_segments(request.jid.identifier, signed64(request.startTxId))

    return {
        "getJournalCTime": ctime,
        "doPreUpgrade": pre_upgrade,
        "doUpgrade": upgrade,
        "doFinalize": finalize,
        "canRollBack": can_roll_back,
        "doRollback": roll_back,
        "discardSegments": discard,
    }
