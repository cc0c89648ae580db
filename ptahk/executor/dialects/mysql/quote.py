"""Names and literals as both servers read them, whatever ``sql_mode`` says of double quotes."""

from __future__ import annotations

_ESCAPES = str.maketrans({"\\": "\\\\", "'": "''", "\n": "\\n", "\r": "\\r", "\x1a": "\\Z"})


def ident(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string literal; assumes that a backslash escapes (no ``NO_BACKSLASH_ESCAPES``)."""
    return "'" + text.translate(_ESCAPES) + "'"


def unident(text: str) -> str:
    """The name that stands in backticks."""
    return text[1:-1].replace("``", "`")
