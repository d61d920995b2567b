"""Take the license file out of a multipart body without trusting its size and without touching the disk."""

from collections.abc import AsyncGenerator

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from windlass_license.errors import FileRefusal, LicenseFileError

FIELD = "file"
HOW_TO = 'send it as curl does: curl -F "file=@license.dat" http://…/ls'
_ENVELOPE_BYTES = 64 * 1024
"""Room for the multipart boundaries and headers around the file."""


async def read_upload(request: Request, max_bytes: int) -> bytes:
    """The bytes of the form's `file`; LicenseFileError when there is none or it is too large."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise LicenseFileError(FileRefusal.NO_FILE, f"the request holds no form with a license file; {HOW_TO}")
    parser = MultiPartParser(request.headers, _bounded(request, max_bytes), max_files=4, max_fields=16)
    parser.spool_max_size = max_bytes + _ENVELOPE_BYTES  # stays in memory: the root file system is read-only
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise LicenseFileError(FileRefusal.NO_FILE, f"the form cannot be read ({error.message}); {HOW_TO}") from error
    try:
        part = form.get(FIELD)
        if not isinstance(part, UploadFile):
            names = ", ".join(f'"{name}"' for name in form) or "none"
            raise LicenseFileError(
                FileRefusal.NO_FILE, f'the form has no file in the field "{FIELD}" (fields: {names}); {HOW_TO}'
            )
        return await part.read()
    finally:
        await form.close()


async def _bounded(request: Request, max_bytes: int) -> AsyncGenerator[bytes, None]:
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > max_bytes + _ENVELOPE_BYTES:
            message = f"the license file is larger than {max_bytes // 2**20} MiB; is it the right file?"
            raise LicenseFileError(FileRefusal.TOO_LARGE, message)
        yield chunk
