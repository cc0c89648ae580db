"""Texts with the bounds that a cluster gives them: read by the codec, rendered into the CRDs.

Where Kubernetes checks such a text again (in a Pod, on a ConfigMap), the bound here is as narrow:
what a Job's create would refuse is refused before there is a claim (C-2.3).
"""

from typing import Annotated

from ptahk.engine.model.fields import Matches
from ptahk.engine.model.limits import MaxLen, MinLen

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
NAME_MAX = 253

ObjectName = Annotated[
    str, MaxLen(NAME_MAX), Matches(SUBDOMAIN, "must be a DNS name in lower case")
]
"""Name of an object of a cluster."""

DataKey = Annotated[
    str,
    MaxLen(NAME_MAX),
    Matches(
        r"\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*",
        "must be a key of letters, digits, dashes, dots and underscores",
    ),
]
"""Key of a Secret or a ConfigMap."""

_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"

QualifiedName = Annotated[
    str, MaxLen(NAME_MAX + 64), Matches(rf"({SUBDOMAIN}/)?{_WORD}", "must be a qualified name")
]
"""Key of a label or an annotation, name of a node's resource or taint."""

LabelValue = Annotated[str, MaxLen(63), Matches(rf"({_WORD})?", "must be a label's value")]

Identifier = Annotated[str, MinLen(1), MaxLen(512)]
"""A name in a database, qualified and quoted as need be; or a glob over such names."""

Uid = Annotated[str, MinLen(1), MaxLen(128)]
"""Uid of an object."""

Digest = Annotated[
    str, MaxLen(71), Matches(r"sha256:[0-9a-f]{64}", "must be sha256: and 64 hex digits")
]
