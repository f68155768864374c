"""GET /getJournal: serves a JournalNode's segments, finalized or in progress (GetJournalEditServlet)."""

from __future__ import annotations

import logging
from http import HTTPStatus

from flask import Blueprint, Response, request
from werkzeug.exceptions import HTTPException

from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text
from hadoop_common.throttle import UNLIMITED, Throttle
from journal.quorum.address import NO_SEGMENT
from journal_node.node import JournalNode
from servlets.errors import JournalMismatchError, NoSuchSegmentError, ServletError, sentence_response
from servlets.file_body import file_answer
from servlets.transfer_requests import JournalRequest, parse_journal

_LOG = logging.getLogger(__name__)
_CHUNK_BYTES = 65536


def get_journal_blueprint(source: JournalNode) -> Blueprint:
    """Return the blueprint of /getJournal."""
    throttle = Throttle(UNLIMITED)
    blueprint = Blueprint("get_journal", __name__)

    @blueprint.get("/getJournal")
    def get_journal() -> Response:
        asked = parse_journal(request.args)
        _check_namespace(source, asked)
        found = source.find_segment(asked.journal_id, asked.segment_txid, in_progress_ok=asked.in_progress_ok)
        if found is None:
            raise NoSuchSegmentError(f"this JournalNode has no segment that begins with txid {asked.segment_txid}")
        return file_answer(found.content, found.name, found.size, chunk_size=_CHUNK_BYTES, throttle=throttle)

    blueprint.register_error_handler(Exception, _answer_fault)
    return blueprint


def _check_namespace(source: JournalNode, asked: JournalRequest) -> None:
    if asked.namespace is None:
        return
    if not source.is_formatted(asked.journal_id):
        raise JournalMismatchError(f"journal {asked.journal_id} is not formatted on this JournalNode")
    own = source.get_storage_info(asked.journal_id)
    if (own.namespace_id, own.cluster_id) != asked.namespace:
        namespace_id, cluster_id = asked.namespace
        theirs = f"{namespace_id} in cluster {cluster_id[:80]!a}"
        raise JournalMismatchError(
            f"journal {asked.journal_id} of this JournalNode belongs to another namespace; the caller's is {theirs}"
        )


def _answer_fault(fault: Exception) -> Response:
    """Return the same response as Hadoop's servlet; the status is 500 for all faults except refusals."""
    if isinstance(fault, ServletError):
        only_compared = isinstance(fault, NoSuchSegmentError) and request.args.get("segmentTxId") == str(NO_SEGMENT)
        level = logging.DEBUG if only_compared else logging.WARNING
        _LOG.log(level, "%s is refused: %s", request.full_path, fault)
        return sentence_response(fault.status, str(fault))
    if isinstance(fault, HTTPException):
        return sentence_response(fault.code or 500, f"{fault.name}: {fault.description}")
    if isinstance(fault, (HdfsError, OSError)):
        _LOG.error("%s failed: %s", request.full_path, error_text(fault))
        return sentence_response(HTTPStatus.INTERNAL_SERVER_ERROR, f"the segment cannot be sent: {error_text(fault)}")
    _LOG.error("%s failed unexpectedly", request.full_path, exc_info=fault)
    sentence = "the request failed because of a bug in this server; see its log"
    return sentence_response(HTTPStatus.INTERNAL_SERVER_ERROR, sentence)
