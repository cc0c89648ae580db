"""Every reason that a status, an event or a refusal may carry, in one enumeration (C-2.4).

A reason is never reused for another meaning. Each says what a person should do and how a command
that ends with it exits; ``docs/errors.md`` is rendered from here.
"""

from dataclasses import dataclass
from typing import Final

INTERNAL = "InternalError"


@dataclass(frozen=True, slots=True)
class Reason:
    """One row of the table."""

    name: str
    exit_code: int
    meaning: str
    what_to_do: str


_TABLE: Final = (
    # name, exit code, meaning, what a person should do
    ("Succeeded", 0, "The operation did what it was asked.", "Nothing."),
    ("AlreadyConverged", 0, "The database already had the plan's desired state.", "Nothing."),
    ("Converged", 0, "A fresh plan under the lock shows that nothing is left to change.",
     "Nothing."),
    ("ChangesPending", 0, "A plan with changes was published.", "Review it, then approve it."),
    ("DriftFound", 0, "The live schema differs from the declared one.", "Plan, then decide."),
    # Refused: nothing ran.
    ("Refused", 3, "A rule refused.", "Read the message."),
    ("RealmConflict", 3, "Two or more resources claim one database.",
     "Remove one, or set target.sharedRealm on all of them; ptahk census names them."),
    ("RealmHeld", 3, "Another operation holds this database's realm.",
     "Wait for it, or see ptahk release-lock."),
    ("LeaseMalformed", 3, "The realm's Lease is not one that ptahk wrote.",
     "Look at it; ptahk never takes it over."),
    ("ExecutionRefused", 3, "What spec.execution names is absent, or the Pod cannot be predicted.",
     "Create or change the object that the message names."),
    ("ApprovalMissing", 3, "No unused approval binds this plan.",
     "Approve this fingerprint: ptahk approve, or apply --approve FINGERPRINT."),
    ("ApplyNever", 3, "policy.apply is Never.", "Change the policy, or do not apply."),
    ("PlanMissing", 3, "The plan asked for does not exist here.", "Plan again."),
    ("PlanSuperseded", 3, "Declaration, policy or target moved since the plan was made.",
     "Plan again."),
    ("PlanDamaged", 3, "The plan's bytes do not hash to what was approved.",
     "Plan again; find out who edited it."),
    ("StalePlan", 3, "The database changed between plan and apply; nothing ran.", "Plan again."),
    ("ServerIdentityMismatch", 3, "The URL leads to another server or database than planned.",
     "Check the URL, the DNS name and any failover; then plan again."),
    ("TargetMismatch", 3, "The URL describes another database, role or route than planned.",
     "Use the URL that the plan was made with, or plan again with this one."),
    ("CoordinationMismatch", 3, "The job's realm is not the approved plan's.", "Plan again."),
    ("BindingMismatch", 3, "The database is bound to another coordination key.",
     "Use the recorded key, or ptahk acknowledge --rebind."),
    ("LedgerMissing", 3, "The attempt ledger is absent and may not be created or written.",
     "Have a DBA run the output of ptahk ledger-sql --grant-to ROLE."),
    ("LedgerUntrusted", 3, "Schema ptahk belongs to a stranger, or holds more than the ledger.",
     "Find out who made it; drop or rename it, or give it to the role that applies."),
    ("LedgerVersion", 3, "The attempt ledger is of another version.", "Use the matching ptahk."),
    ("ClockSkew", 3, "The database's clock and ours differ by more than 30 seconds.",
     "Correct the clocks."),
    ("Frozen", 3, "The ledger and the store disagree about what ran on this database.",
     "Find out why (a restored backup, a second cluster), then ptahk acknowledge --frozen."),
    ("UnfinishedAttempt", 3, "An attempt of another store has not finished on this database.",
     "Wait for it or for its deadline, which the message names; then run the command again."),
    ("AttemptExists", 3, "The ledger already has a row for this operation.",
     "Nothing ran twice; run the command again."),
    ("Fenced", 3, "The operation was fenced before it could start.", "Run the command again."),
    ("StaleEpoch", 3, "The ledger holds a number as high as this operation's.",
     "Run the command again."),
    ("NoAdmission", 3, "The admission guard is not in force.", "Repair the installation."),
    ("PlanTooLarge", 3, "The plan exceeds what can be stored.", "Split the change."),
    ("ResultTooLarge", 3, "The result exceeds the largest frame.", "Narrow policy.schemas."),
    ("ProtectedTable", 3, "The plan changes a protected table.",
     "Take the table out of policy.protectedTables (--protect), or do not change it."),
    ("DestructiveNotAllowed", 3, "The plan destroys data and policy does not allow it.",
     "Set policy.allowDestructive (--allow-destructive) if that is meant."),
    ("DeadlineTooShort", 3, "A rewrite or index build of a large table needs a set deadline.",
     "Set execution.activeDeadlineSeconds (--deadline)."),
    ("ScratchUnavailable", 3, "No scratch database can be had for planning.",
     "Grant CREATEDB, or give dev.urlFrom (--dev-url-env)."),
    ("LockHeld", 3, "Another session holds the database's advisory lock.",
     "Wait for the operation that the message names."),
    ("TransactionPooler", 3, "The URL leads through a transaction pooler.",
     "Use a direct endpoint."),
    ("StandbyServer", 3, "The server is a read-only standby.", "Use the primary."),
    ("SessionChanged", 3, "The connection does not stay on one server session.",
     "Use a direct endpoint."),
    ("UnsupportedServer", 3, "This server version is not supported.", "See docs."),
    ("WrongServer", 3, "The server is MySQL where MariaDB is declared, or the other way.",
     "Set target.engine to what the server is, or use another URL."),
    ("MultiWriterServer", 3, "The server is one of several that take writes.",
     "Use a server, or a group, with one writer."),
    ("SqlModeRefused", 3, "The server's sql_mode changes what SQL text means.",
     "Take the modes that the message names out of the server's sql_mode."),
    ("UnsupportedSource", 3, "This kind of source is not supported yet.",
     "Use desired.inline or desired.configMapRef."),
    ("NotStarted", 3, "The operation was dispatched and the ledger proves that nothing ran.",
     "Run the command again."),
    ("DispatchExpired", 3, "The operation was not started before its deadline.",
     "Run the command again."),
    ("SnapshotChanged", 3, "What shapes the operation's process changed before it started.",
     "Run the command again."),
    ("Suspended", 3, "The resource is suspended.", "Set suspend to false."),
    ("Deleting", 3, "The resource is being deleted.", "Nothing."),
    ("StatusUnreadable", 3, "The stored status is not one that this ptahk can read.",
     "Use the ptahk that wrote it; do not edit status by hand."),
    # Usage.
    ("InvalidSpec", 2, "The resource's spec is not valid.", "Correct the field that is named."),
    ("InvalidRequest", 2, "The request on the resource is not valid.", "Ask again."),
    ("UrlMissing", 2, "The resource names no database URL, so nothing runs yet.",
     "Set target.urlFrom to the Secret and key that hold it."),
    ("SourceMissing", 2, "The declaration is absent.", "Create the ConfigMap, or give --schema."),
    ("SourceInvalid", 2, "The declaration cannot be read.", "Correct it as the message says."),
    # Unknown: something may have run.
    ("OutcomeUnknown", 4, "Something may have run.",
     "Run the same command again: the proof that is owed reads the ledger."),
    ("JobMissing", 4, "The operation's process is absent after the dispatch mark.",
     "Run the same command again."),
    ("JobForeign", 4, "Another Job stands under the operation's name.",
     "Find out who made it; run the same command again."),
    ("ContinuityLost", 4, "The realm's Lease changed hands during the operation.",
     "Run the same command again."),
    ("ExecutorLost", 4, "The operation's executor ended without a result.",
     "Run the same command again."),
    ("FrameLost", 4, "The operation's result is gone.", "Run the same command again."),
    ("FrameRefused", 4, "The operation's output is not its result.",
     "Run the same command again."),
    ("ProofFailed", 4, "The proof that is owed could not be had.", "Run the same command again."),
    ("ConnectionLost", 4, "The database session ended during the operation.",
     "Run the same command again."),
    ("Stopped", 4, "The operation was told to stop.", "Run the same command again."),
    ("DeadlineExceeded", 4, "The operation reached its deadline.",
     "Raise execution.activeDeadlineSeconds (--deadline)."),
    # Ran and failed.
    ("OperationFailed", 5, "The operation ran and failed; nothing is left of it.",
     "Read the server's message, correct the cause, plan again."),
    ("StatementFailed", 5, "A statement failed and nothing was changed.",
     "Read the server's message, correct the cause, plan again."),
    ("Partial", 5, "Some statements took effect and the rest did not.",
     "Plan again: the new plan starts from what is there."),
    ("NotConverged", 5, "Everything was applied and yet the plan is not empty.",
     "Plan again and look at what is left."),
    ("NoResult", 5, "A read-only operation ended without a result, several times.",
     "Run the command again with --verbose; look at the process that ended."),
    ("InvalidManifest", 2, "A manifest cannot be read or is not valid.",
     "Correct the line that is named."),
    ("Unreachable", 6, "The database cannot be reached.", "Check server and network."),
    ("StoreDamaged", 6, "The local state file is not a sound one of ptahk.",
     "Restore it, or name another directory with --state."),
    ("StoreFull", 6, "The disk under the local state is full; what was written stays.",
     "Free some space, then run the same command again."),
    ("StoreBusy", 6, "Another process keeps the local state locked.",
     "Run the command again; find the process if it lasts."),
    ("StoreNotWritable", 6, "The local state directory cannot be written.",
     "Name another with --state; plan, observe and census need none."),
    ("StoreFailed", 6, "The local state file cannot be read or written.",
     "Check the disk, then run the same command again."),
    ("StoreNotPrivate", 2, "Others own the local state directory or may write into it.",
     "Name a directory of your own with --state."),
    ("StoreTooNew", 2, "The local state was written by a newer ptahk.",
     "Use that ptahk, or another state directory."),
    (INTERNAL, 70, "A fault of our own.", "Report it with --verbose."),
    # Why a pass ends; never an answer.
    ("Superseded", 0, "Inputs moved, so a result or a claim was dropped.", "Nothing."),
    ("SecretUnavailable", 0, "The operation's Pod waits for a Secret, a ConfigMap or a key of it.",
     "Create what the message names: the Pod then starts by itself."),
    ("ImageUnavailable", 0, "The image of the operation's Pod cannot be pulled.",
     "Check the image's name, the registry and execution.imagePullSecrets."),
    ("Unschedulable", 0, "No node can run the operation's Pod.",
     "Change nodeSelector, tolerations, affinity or resources in spec.execution, or add a node."),
    ("PodRefused", 0, "The cluster refuses to create the operation's Pod.",
     "Mend the quota, the LimitRange or the policy that the message names."),
    ("PodWaiting", 0, "The operation's Pod does not start.",
     "See kubectl describe of the Pod that the message names."),
    ("PodStuck", 0, "The operation's Pod has not ended long after its deadline.",
     "Look at its node; once the machine is known to be off, delete the Node object."),
    ("JobRunning", 0, "The operation is running.", "Wait."),
    ("ResultPending", 0, "The result cannot be read yet.", "Wait."),
    ("ProofWait", 0, "A proof waits one Lease duration, for a create that may still land.",
     "Wait, or ptahk release-lock."),
    ("BackOff", 0, "The next attempt comes later.", "Wait."),
    ("StoreFault", 0, "The store refused or did not answer.", "Wait, or look at the store."),
    ("Interval", 0, "The next observation comes later.", "Nothing."),
    ("Idle", 0, "Nothing is asked for.", "Nothing."),
    # The caller's mistake: nothing was started.
    ("InvalidInput", 2, "An option or argument is not what it should be.", "Read the message."),
    ("UnknownCommand", 2, "There is no such command.", "See ptahk --help."),
    ("UnknownEngine", 2, "The engine is not one that ptahk knows.", "Use postgresql."),
    ("EngineNotSupported", 2, "The engine is known, but not supported yet.", "Use postgresql."),
    ("EngineMismatch", 2, "The database URL is of another engine than the plan.",
     "Use the URL that the plan was made with."),
    ("UnknownFamily", 2, "The resource is of a kind that is not in this build.",
     "Name it schema/NAME."),
    ("UnknownResource", 2, "The state directory holds no such resource.",
     "See ptahk status --local, or name another directory with --state."),
    ("AmbiguousResource", 2, "Several databases have a resource of that name.",
     "Say which with --key or with its URL."),
    ("ManifestNotApplied", 3, "The cluster holds another spec than the manifest that was given.",
     "Apply the manifest with kubectl first."),
    ("LeadershipLost", 6, "A replica of the manager could not renew its Lease in time.",
     "Nothing: it is started again, and another leads. If it repeats, look at the API server."),
    ("NoManager", 6, "No manager is live in the cluster, so nobody would do what is asked.",
     "Start ptahk serve, or name its namespace with --coordination-namespace."),
    ("InvalidCoordinationKey", 2, "The coordination key is empty, reserved or not text.",
     "Choose another key."),
    ("InvalidDuration", 2, "A duration is not one, or too long.", "Write it like 30s or 5m."),
    ("InvalidVariableName", 2, "--url-env was given something that is no variable's name.",
     "Export the URL, and give the variable's name."),
    ("NoDatabaseURL", 2, "The database URL's variable is not set.",
     "Export it, or use --url-file."),
    ("InvalidUrl", 2, "The database URL is ambiguous, incomplete or not readable.",
     "Correct the part that the message names."),
    ("Denied", 2, "The server refuses the URL's role, password or database.",
     "Correct the URL, or ask who runs the server."),
    ("UnreadableFile", 2, "A file cannot be read.", "Check its name and permissions."),
    ("UnwritableFile", 2, "A file cannot be written.", "Check its folder and permissions."),
    ("NotText", 2, "A declared file is not UTF-8 text.", "Save it as UTF-8."),
    ("SourceTooLarge", 2, "The declaration is larger than the limit.", "Split it."),
    ("InvalidSource", 2, "The declaration does not parse, or does not load.",
     "Correct the file and line that the message names."),
    ("MissingRoles", 2, "The declaration names roles that the server does not have.",
     "Create them first, or load it on a development server."),
    ("InvalidPlanFile", 2, "The plan file is damaged, edited or of another version.",
     "Plan again."),
    # Refused by the planner, the executor or the runner: nothing ran.
    ("UnsupportedObject", 3, "An object's kind or property has no builder.",
     "Keep it out with --exclude, or change it by hand."),
    ("UnsupportedChange", 3, "The change of an object has no safe form.",
     "Make it by hand, then plan again."),
    ("UsedOutOfScope", 3, "An object outside the plan's scope uses what it would replace.",
     "Bring that object into scope with --schemas, or change both by hand."),
    ("ValueNotInType", 3, "A stored value does not exist in the declared type.",
     "Change the rows that the message names, then plan again."),
    ("DataDoesNotFit", 3, "Stored values do not fit the declared schema.",
     "Change the rows that the message names, then plan again."),
    ("DataNotReadable", 3, "This role may not see all the rows that a change must fit.",
     "Plan and apply as a role that row-level security does not hide rows from."),
    ("UnstablePlan", 3, "Two inspections in a row gave two plans.",
     "Plan again when nothing else changes the schema."),
    ("PlanUnproven", 3, "The plan fails, or does not reach the declaration, in rehearsal.",
     "Report it with both schemas."),
    ("InvalidPlan", 3, "The plan's bytes are not a plan.", "Plan again."),
    ("ReadOnlyServer", 3, "The server gives read-only transactions only.",
     "Use the writable server's URL."),
    ("NoSource", 3, "The operation was given no declaration.", "Give --schema or --schema-dir."),
    ("JobMismatch", 3, "The job's binding is not what was claimed.", "Run the command again."),
    ("InputMismatch", 3, "An input of the job does not hash to what was claimed.",
     "Run the command again."),
    ("NothingToAcknowledge", 3, "The resource has nothing that a person must settle.",
     "See ptahk status."),
    ("ResourceBusy", 3, "Another command works on this resource.",
     "Wait for it, or follow it with ptahk status --watch."),
    # The other side's fault, and our own.
    ("TimedOut", 4, "The time of --timeout is up; what was started goes on.",
     "Run the same command again: it goes on."),
    ("QueryFailed", 5, "The server refused a query of ptahk's own.", "Read the server's message."),
    ("BrokenInstallation", 70, "A part of ptahk cannot be imported.", "Install it again."),
    ("OutputFailed", 70, "Standard output cannot be written; what the command did stands.",
     "See ptahk status."),
)  # fmt: skip

WAITING: Final = frozenset(
    {
        "SecretUnavailable", "ImageUnavailable", "Unschedulable", "PodRefused", "PodWaiting",
        "PodStuck",
    }
)  # fmt: skip
"""Why an operation's Pod does not begin or end; it does by itself once that is mended."""

REASONS: Final = {row[0]: Reason(*row) for row in _TABLE}
assert len(REASONS) == len(_TABLE), "a reason is never reused"


def exit_code(reason: str, otherwise: int = 3) -> int:
    """The exit code of a command that ends with this reason.

    :param otherwise: for reasons that an executor of another version may name.
    """
    found = REASONS.get(reason)
    return otherwise if found is None else found.exit_code


def advice(reason: str) -> str:
    """What a person should do; empty for a reason that is not ours."""
    found = REASONS.get(reason)
    return "" if found is None else found.what_to_do
