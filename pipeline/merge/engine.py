"""The `spark` engine of the `checkpointer.engines` entry point group; imports Spark only when it merges."""

from __future__ import annotations

import logging

from checkpointer.merging.engines import LocalEngine, MergeTask
from engine.observer import Observer, SilentObserver
from engine.saver import MergeResult
from image_format.errors import InconsistentSnapshotsError, UnsupportedLayoutError
from image_format.layout import check_supported
from image_format.reader import ImageFile
from pipeline.libraries import SPARK, missing_library
from site_config.engine_settings import SparkSettings

_LOG = logging.getLogger(__name__)


class SparkEngine:
    """Engine that merges on Spark; see `pipeline.merge.checkpoint`."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings

    def refusal(self, task: MergeTask) -> str:
        """Return the reason why this engine cannot merge, or "" if it can merge.

        Raises:
            ImageFormatError: the image is damaged.
            ImageStorageError: the image cannot be read.
        """
        if name := missing_library(SPARK):
            return f"{name} is not installed"
        with ImageFile.open(task.image, verify_md5=False, allow_unknown_layout=True) as image:
            if task.settings.layout_version not in (None, image.layout_version):
                return f"cannot convert an image of layout {image.layout_version} to {task.settings.layout_version}"
            try:
                check_supported(image.layout_version, str(image.path), allow_unknown=False)
            except UnsupportedLayoutError:
                if task.settings.allow_unknown_layout:
                    return f"cannot merge images of the unknown layout {image.layout_version}"
                raise
        return ""

    def merge(self, task: MergeTask, observer: Observer | None = None) -> MergeResult:
        """Make a checkpoint on Spark, or with the local engine if the image must be healed first.

        Raises:
            HdfsError: see `engine.merge.merge`; nothing was written.
            PipelineError: Spark does not start, or failed.
        """
        from pipeline.merge.checkpoint import make_checkpoint
        from pipeline.merge.faults import spark_errors
        from pipeline.merge.spark_session import engine_context

        try:
            with engine_context(self._settings, small=_is_small(task)) as context, spark_errors("Spark"):
                return make_checkpoint(context, self._settings, task, observer or SilentObserver())
        except InconsistentSnapshotsError as error:
            _LOG.info("using the local engine, because Spark cannot heal images: %s", error)
        return LocalEngine().merge(task, observer)


def _is_small(task: MergeTask) -> bool:
    from pipeline.input_checks import are_small

    try:
        return are_small([task.image, *(segment.path for segment in task.segments)])
    except OSError:
        # the merge reports the unreadable file
        return False
