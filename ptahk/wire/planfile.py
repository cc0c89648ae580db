"""The self-contained plan file of ``plan --out`` (C-7.3): one runner plans, another applies.

It carries the plan bytes, the declaration that a proof needs, the inputs of C-7.2, the
fingerprint and what people read beside them. The file is canonical JSON and one newline, and
names the digest of everything else in it, so no byte of it can be edited unseen. That is no
signature: what an approval covers is the fingerprint.
"""

import base64
import binascii
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ptahk.errors import UsageError
from ptahk.wire import canonical, digest
from ptahk.wire.binding import Binding, read_binding

VERSION: Final = 1
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
PLAN_BYTES_MAX: Final = 8 * 1024 * 1024
SOURCE_BYTES_MAX: Final = 40 * 1024 * 1024

_HEAD = {"apiVersion": "cli.ptahk.dev/v1", "kind": "PlanFile", "version": VERSION}
_TEXTS = ("engine", "resourceKind", "resourceName", "serverIdentity", "operationId", "time")
_KEYS = {*_HEAD, *_TEXTS, "binding", "fingerprint", "summary", "plan", "source", "digest"}

Files = tuple[tuple[str, str], ...]
"""(name, text) of each declared file, in the order in which they are loaded."""


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan with all that its approval and its application need.

    :ivar engine: ``postgresql``.
    :ivar resource_kind: with ``resource_name``, what the plan is of; its uid is in ``binding``.
    :ivar server_identity: of the server that was planned against (C-9.7).
    :ivar operation_id: of the Plan operation.
    :ivar time: RFC 3339 UTC, when it was planned.
    :ivar summary: the executor's summary, for people; bound by nothing.
    :ivar plan_gzip: gzip of the plan bytes, as stored in ``binaryData``.
    :ivar source_gzip: gzip of ``{"files": [{"name", "text"}]}``, as stored.
    """

    engine: str
    resource_kind: str
    resource_name: str
    server_identity: str
    operation_id: str
    time: str
    binding: Binding
    summary: Mapping[str, Any]
    plan_gzip: bytes
    source_gzip: bytes

    @property
    def fingerprint(self) -> digest.PlanFingerprint:
        """What a person approves."""
        return digest.plan_fingerprint(self.binding)

    @property
    def plan_bytes(self) -> bytes:
        """The plan bytes of C-7.3. :raises UsageError: they are not gzip within the bound."""
        return _unpack(self.plan_gzip, PLAN_BYTES_MAX, "plan bytes")

    @property
    def files(self) -> Files:
        """The declaration. :raises UsageError: the bundle is not one."""
        raw = _unpack(self.source_gzip, SOURCE_BYTES_MAX, "declaration")
        try:
            bundle = canonical.decode(raw, bytes_max=SOURCE_BYTES_MAX)
            files = tuple((file["name"], file["text"]) for file in bundle["files"])
        except (canonical.CanonicalError, KeyError, TypeError):
            raise _refuse("its declaration is not a bundle of files") from None
        if not all(isinstance(text, str) for file in files for text in file):
            raise _refuse("its declaration is not a bundle of files")
        return files


def encode(plan: PlanFile) -> bytes:
    """The bytes of the file.

    :raises UsageError: plan, declaration and binding are not of one plan.
    """
    _verify(plan)
    document: dict[str, Any] = {
        **_HEAD,
        "engine": plan.engine,
        "resourceKind": plan.resource_kind,
        "resourceName": plan.resource_name,
        "serverIdentity": plan.server_identity,
        "operationId": plan.operation_id,
        "time": plan.time,
        "binding": plan.binding.document(),
        "fingerprint": plan.fingerprint,
        "summary": dict(plan.summary),
        "plan": base64.b64encode(plan.plan_gzip).decode("ascii"),
        "source": base64.b64encode(plan.source_gzip).decode("ascii"),
    }
    document["digest"] = digest.plan_file_digest(document)
    return canonical.encode(document) + b"\n"


def decode(data: bytes) -> PlanFile:
    """Read and verify a plan file; everything in it belongs together, or it is refused.

    :raises UsageError: ``InvalidPlanFile``.
    """
    document = _document(data)
    told = document.pop("digest")
    if told != digest.plan_file_digest(document):
        raise _refuse("it was edited, or is damaged: its content does not hash to its digest")
    if not all(isinstance(document[name], str) for name in _TEXTS):
        raise _refuse("a field has another type")
    try:
        plan = PlanFile(
            engine=document["engine"],
            resource_kind=document["resourceKind"],
            resource_name=document["resourceName"],
            server_identity=document["serverIdentity"],
            operation_id=document["operationId"],
            time=document["time"],
            binding=read_binding(document["binding"]),
            summary=dict(document["summary"]),
            plan_gzip=base64.b64decode(document["plan"], validate=True),
            source_gzip=base64.b64decode(document["source"], validate=True),
        )
    except (ValueError, TypeError, binascii.Error):
        raise _refuse("a field has another form") from None
    _verify(plan)
    if document["fingerprint"] != plan.fingerprint:
        raise _refuse("its fingerprint is not its inputs'")
    return plan


def _document(data: bytes) -> dict[str, Any]:
    try:
        document = canonical.decode(data, bytes_max=FILE_BYTES_MAX)
        exact = data == canonical.encode(document) + b"\n"
    except canonical.CanonicalError as error:
        raise _refuse(str(error)) from None
    if not isinstance(document, dict) or document.get("kind") != _HEAD["kind"]:
        raise _refuse("it is another document", "Write one with: ptahk plan … --out FILE")
    if any(document.get(name) != value for name, value in _HEAD.items()):
        raise _refuse("it is of another version of ptahk", "Plan again with this version.")
    if document.keys() != _KEYS or not exact:
        raise _refuse("it was edited, or is damaged: its form is not the one that was written")
    return document


def _verify(plan: PlanFile) -> None:
    if digest.plan_content_digest(plan.plan_bytes) != plan.binding.plan_digest:
        raise _refuse("its plan bytes are not those of its fingerprint")
    if digest.source_digest(plan.files) != plan.binding.source_digest:
        raise _refuse("its declaration is not that of its fingerprint")


def _unpack(packed: bytes, bytes_max: int, what: str) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)  # one gzip member
    try:
        raw = unpacker.decompress(packed, bytes_max + 1)
    except zlib.error:
        raise _refuse(f"its {what} are damaged") from None
    if not unpacker.eof or unpacker.unused_data or len(raw) > bytes_max:
        raise _refuse(f"its {what} are damaged, or larger than {bytes_max} bytes")
    return raw


def _refuse(why: str, hint: str | None = "Plan again; a plan file is never edited.") -> UsageError:
    return UsageError(
        f"plan file refused (plan): {why}", reason="InvalidPlanFile", field="plan", hint=hint
    )
