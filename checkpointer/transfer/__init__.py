"""The client side of image transfers: uploads of checkpoints, downloads of images and segments (TransferFsImage)."""

from checkpointer.transfer.common import TransferCancelledError
from checkpointer.transfer.download import DownloadedImage, download_image, download_segment, stored_info
from checkpointer.transfer.upload import UploadResult, upload_image

__all__ = [
    "DownloadedImage",
    "TransferCancelledError",
    "UploadResult",
    "download_image",
    "download_segment",
    "stored_info",
    "upload_image",
]
