"""Bounds of a type, as ``Annotated`` carries them: read by ``fields``, rendered by ``api.crd``.

The names and meanings are those of the ``annotated-types`` package, of which these four are all
that is needed: importing the package costs more than all of our own model.
"""


class Bound:
    """One bound; ``limit`` itself is allowed."""

    __match_args__ = ("limit",)
    __slots__ = ("limit",)

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.limit})"


class MaxLen(Bound):
    """A text has at most so many characters, a list or map so many items."""

    __slots__ = ()


class MinLen(Bound):
    """A text has at least so many characters."""

    __slots__ = ()


class Ge(Bound):
    """A number is at least this."""

    __slots__ = ()


class Le(Bound):
    """A number is at most this."""

    __slots__ = ()
