"""Every way a command can end badly, with its reason, exit code and hint. Imports nothing.

Three groups: the caller's mistake, the other side's fault, outcome unknown. A class stands here
for each thing that a script may want to tell apart; ``docs/errors.md`` is generated from it.
"""


class PtahkError(Exception):
    """Base of every error that reaches a person.

    :param message: one line, WHAT (FIELD=VALUE): WHY. Never a secret.
    :param reason: CamelCase, never reused for another meaning (C-2.4).
    :param field: the option or field at fault, if one is.
    :param hint: the next step a person should take.
    """

    exit_code = 70
    default_reason = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        field: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason or self.default_reason
        self.field = field
        self.hint = hint


class InternalError(PtahkError):
    """A fault of our own: an unhandled error or a failing import."""


def output_failed(error: OSError) -> InternalError:
    """Standard output took the result only in part, or not at all."""
    return InternalError(
        f"cannot write the result (standard output): {error.strerror}",
        reason="OutputFailed",
        hint="What the command did stands; 'ptahk status' shows it.",
    )


class UsageError(PtahkError):
    """The caller's mistake; nothing was started."""

    exit_code = 2
    default_reason = "InvalidInput"


class Refused(PtahkError):
    """Refused by a rule; nothing ran."""

    exit_code = 3
    default_reason = "Refused"


class OutcomeUnknown(PtahkError):
    """Something may have run. The message names the claim and the next step."""

    exit_code = 4
    default_reason = "OutcomeUnknown"


class OperationFailed(PtahkError):
    """The operation ran and failed, or is partial; the database says what was changed."""

    exit_code = 5
    default_reason = "OperationFailed"


class Unreachable(PtahkError):
    """The cluster, its manager, the database or the store cannot be reached."""

    exit_code = 6
    default_reason = "Unreachable"
