"""Scratch databases: where a declaration is loaded to be read back as the server understands it.

Names, the comment's deadline and the sweeper's rules are those of planner.md: a scratch database
is dropped at the end always, and a stray only when it is ours, past its deadline and unused.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from ptahk.errors import PtahkError, Refused
from ptahk.executor.dialects.postgres.quote import ident, literal
from ptahk.executor.dialects.postgres.session import Session, connect, first_line
from ptahk.wire.jobspec import JobSpec

PREFIX: Final = "ptahk_scratch_"
_STRAY: Final = "^ptahk_scratch_[0-9a-f]{32}$"
_DROP_S: Final = 60.0
_SWEEP_MAX: Final = 8
HINT: Final = (
    "give this role CREATEDB on the target server, or name a development server of the same "
    "major version (--dev-url-env, dev.urlFrom), or, where extensions need a superuser, a "
    "template that holds them (--dev-template, dev.template)"
)


class ScratchUnavailable(Refused):
    """No scratch database is to be had (exit 3)."""

    default_reason = "ScratchUnavailable"


@dataclass(frozen=True, slots=True)
class Workshop:
    """A server session from which scratch databases are made."""

    admin: Session
    url: str
    spec: JobSpec
    locale: tuple[tuple[str, str], ...]
    """Options of CREATE DATABASE that make it like the target."""
    is_dev: bool

    @contextlib.contextmanager
    def database(self) -> Iterator[Session]:
        """One scratch database and a session in it; dropped at the end whatever happens.

        :raises ScratchUnavailable: the server refuses to make one.
        """
        deadline = int(time.time() + max(self.admin.budget.check(), 60.0))
        # The deadline is in the name too: a kill may come between CREATE DATABASE and COMMENT.
        name = f"{PREFIX}{deadline:08x}{secrets.token_hex(12)}"
        session: Session | None = None
        try:
            self._create(name, deadline)
            session = connect(
                self.url,
                application_name=self.spec.application_name,
                connect_timeout_s=self.spec.policy.connect_timeout_seconds,
                budget=self.admin.budget,
                database=name,
            )
            _settle(session)
            yield session
        finally:
            if session is not None:
                session.close()
            self._drop(name)

    def _create(self, name: str, deadline: int) -> None:
        template = self.spec.policy.dev_template
        options = [("TEMPLATE", ident(template or "template0"))]
        if template is None:
            options += self.locale
        options.append(("CONNECTION LIMIT", "2"))
        try:
            self.admin.run(
                f"CREATE DATABASE {ident(name)} " + " ".join(f"{k} {v}" for k, v in options)
            )
            # A stranger could put functions in the way of what is loaded, or use its limit up.
            self.admin.run(f"REVOKE ALL ON DATABASE {ident(name)} FROM PUBLIC")
            self.admin.run(f"GRANT CONNECT ON DATABASE {ident(name)} TO SESSION_USER")
            note = json.dumps({"ptahk": "scratch/1", "deadline": deadline})
            self.admin.run(f"COMMENT ON DATABASE {ident(name)} IS {literal(note)}")
        except psycopg.Error as error:
            raise ScratchUnavailable(
                f"the server refuses a scratch database: {first_line(error)}", hint=HINT
            ) from None

    def _drop(self, name: str) -> None:
        if self.admin.lost:
            return  # the sweeper of a later run finds it by its name and deadline
        with contextlib.suppress(psycopg.Error, PtahkError):
            self.admin.query(
                "SELECT set_config('statement_timeout', %s, false)", (str(int(_DROP_S * 1000)),)
            )
            self.admin.run(f"DROP DATABASE IF EXISTS {ident(name)} WITH (FORCE)")


def _settle(session: Session) -> None:
    """Nothing in a scratch database has to survive a crash, and no load may run for ever."""
    left = int(max(1.0, session.budget.check()) * 1000)
    session.query(
        "SELECT set_config('synchronous_commit', 'off', false),"
        " set_config('statement_timeout', %s, false)",
        (str(left),),
    )


@contextlib.contextmanager
def workshop(
    target: Session, target_url: str, dev_url: str | None, spec: JobSpec
) -> Iterator[Workshop]:
    """Where scratch databases come from: the dev server if one is named, else the target.

    :raises ScratchUnavailable: neither may be used; names the three ways out.
    """
    if dev_url is None:
        _require_createdb(target, "target")
        sweep(target)
        yield Workshop(target, target_url, spec, _locale(target), False)
        return
    admin = connect(
        dev_url,
        application_name=spec.application_name,
        connect_timeout_s=spec.policy.connect_timeout_seconds,
        budget=target.budget,
    )
    try:
        here, there = target.identity.version // 10000, admin.identity.version // 10000
        if here != there:
            raise ScratchUnavailable(
                f"the development server is PostgreSQL {there}, the target {here}: "
                "another major version reads schemas differently",
                hint=HINT,
            )
        _require_createdb(admin, "development")
        sweep(admin)
        yield Workshop(admin, dev_url, spec, _locale(target), True)
    finally:
        admin.close()


def _require_createdb(session: Session, which: str) -> None:
    allowed = session.query(
        "SELECT rolcreatedb OR rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user"
    )
    if not allowed or not allowed[0][0]:
        raise ScratchUnavailable(
            f"the declaration cannot be loaded (role={session.identity.role}): this role may not "
            f"create databases on the {which} server",
            hint=HINT,
        )


def _locale(target: Session) -> tuple[tuple[str, str], ...]:
    """Encoding, provider and locale of the target database (they differ by server version)."""
    row = target.query(
        "SELECT to_jsonb(d) || jsonb_build_object('enc', pg_encoding_to_char(encoding))"
        " FROM pg_catalog.pg_database d WHERE datname = current_database()"
    )[0][0]
    facts: dict[str, Any] = dict(row)
    out = [
        ("ENCODING", literal(facts["enc"])),
        ("LC_COLLATE", literal(facts["datcollate"])),
        ("LC_CTYPE", literal(facts["datctype"])),
    ]
    provider = facts.get("datlocprovider", "c")
    locale = str(facts.get("datlocale") or facts.get("daticulocale"))
    if provider == "i":
        out += [("LOCALE_PROVIDER", "icu"), ("ICU_LOCALE", literal(locale))]
        if facts.get("daticurules"):
            out.append(("ICU_RULES", literal(facts["daticurules"])))
    elif provider == "b":
        out += [("LOCALE_PROVIDER", "builtin"), ("BUILTIN_LOCALE", literal(locale))]
    elif "datlocprovider" in facts:
        out.append(("LOCALE_PROVIDER", "libc"))
    return tuple(out)


def sweep(session: Session) -> int:
    """Drop strays: our name, our role's, past their deadline, without sessions. Never by force.

    :returns: how many were dropped.
    """
    rows = session.query(
        "SELECT d.datname, shobj_description(d.oid, 'pg_database')"
        " FROM pg_catalog.pg_database d JOIN pg_catalog.pg_roles r ON r.oid = d.datdba"
        " WHERE d.datname ~ %s AND r.rolname = current_user AND NOT EXISTS"
        " (SELECT FROM pg_catalog.pg_stat_activity a WHERE a.datid = d.oid) LIMIT %s",
        (_STRAY, _SWEEP_MAX),
    )
    dropped = 0
    for name, note in rows:
        if _deadline(name, note) < time.time():
            # Two sweepers may meet; the one that comes second finds nothing.
            with contextlib.suppress(psycopg.Error):
                session.run(f"DROP DATABASE IF EXISTS {ident(name)}")
                dropped += 1
    return dropped


def _deadline(name: str, note: str | None) -> float:
    """Seconds since the epoch: the comment's, or without a sound comment the name's."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        facts = json.loads(note or "")
        if facts["ptahk"] == "scratch/1":
            return float(facts["deadline"])
    return float(int(name[len(PREFIX) :][:8], 16))
