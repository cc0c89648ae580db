"""Source bundles: gzip of ``{"files": [{"name", "text"}]}``, equal for equal files."""

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from ptahk.engine.model.fields import FieldError
from ptahk.engine.model.resource import SOURCE_KEY
from ptahk.wire import canonical

SOURCE_BYTES_MAX = 64 * 1024 * 1024
"""Raw size of a declaration."""
SQL_SUFFIX = ".sql"

Files = tuple[tuple[str, str], ...]


def pack(data: bytes) -> bytes:
    """Gzip without a time or a name: equal bytes in, equal bytes out."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def unpack(data: bytes, bytes_max: int) -> bytes:
    """One gzip member of at most so many raw bytes. :raises FieldError: anything else."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        raw = unpacker.decompress(data, bytes_max + 1)
    except zlib.error:
        raise FieldError(".binaryData", "is not gzip") from None
    if len(raw) > bytes_max:
        raise FieldError(".binaryData", f"is more than {bytes_max} bytes")
    if not unpacker.eof or unpacker.unused_data:
        raise FieldError(".binaryData", "is not one whole gzip member")
    return raw


def encode(files: Iterable[tuple[str, str]]) -> bytes:
    """A bundle of files, in the order in which they are loaded."""
    return pack(canonical.encode({"files": [{"name": n, "text": t} for n, t in files]}))


def decode(data: bytes) -> Files:
    """The files of a bundle. :raises FieldError: it is not one."""
    try:
        value = canonical.decode(unpack(data, SOURCE_BYTES_MAX))
        files = tuple((item["name"], item["text"]) for item in value["files"])
    except (canonical.CanonicalError, KeyError, TypeError):
        raise FieldError(f".binaryData.{SOURCE_KEY}", "is not a source bundle") from None
    if not all(isinstance(name, str) and isinstance(text, str) for name, text in files):
        raise FieldError(f".binaryData.{SOURCE_KEY}", "is not a source bundle")
    return files


def files_of(
    document: Mapping[str, Any], key: str | None, suffixes: tuple[str, ...] = (SQL_SUFFIX,)
) -> Files:
    """The declaration in a ConfigMap: its bundle, else its ``*.sql`` keys by name.

    :param key: only this key.
    :param suffixes: ends of the keys that count where none is named.
    :raises FieldError: nothing of the kind is in it.
    """
    binary = document.get("binaryData") or {}
    data = document.get("data") or {}
    if key is None and SOURCE_KEY in binary:
        return decode(unbase64(binary[SOURCE_KEY]))
    names = [key] if key is not None else sorted(n for n in data if n.endswith(suffixes))
    if not names or any(name not in data for name in names):
        raise FieldError(".data", f"has no {key or '*' + SQL_SUFFIX}")
    return tuple((name, data[name]) for name in names)


def unbase64(text: Any) -> bytes:
    """Bytes of a ``binaryData`` value. :raises FieldError: not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise FieldError(".binaryData", "is not base64") from None


def base64_text(data: bytes) -> str:
    """A ``binaryData`` value."""
    return base64.b64encode(data).decode("ascii")
