"""Sending before reading, where PyMySQL itself waits for each answer before anything else happens.

What the answers hold is PyMySQL's own reading of them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pymysql
from pymysql.constants.COMMAND import COM_QUERY

from ptahk.executor.dialects.mysql.driver import Connection, ends_the_session

BATCH_BYTES: Final = 4096
"""Two of these are under way at most: what the buffers of a socket hold in any case, so that
neither side ever waits for the other to read."""

Answer = Sequence[tuple[Any, ...]]
Question = tuple[str, Sequence[Any]]
"""SQL and parameters."""


def begin(connection: Connection, sql: str) -> None:
    """Send one statement; ``finish`` must follow before anything else is sent.

    :raises pymysql.MySQLError: the session is gone.
    """
    driver: Any = connection  # its published types leave this out
    driver._execute_command(COM_QUERY, sql)


def finish(connection: Connection) -> None:
    """Take the answer of what was begun, whose rows nobody wants.

    :raises pymysql.MySQLError: the server refused it, or the session is gone.
    """
    driver: Any = connection
    driver._read_query_result()
    while driver._result is not None and driver._result.has_next:
        driver.next_result()


def answers(connection: Connection, asked: Sequence[Question]) -> list[Answer]:
    """The answers of several reads, of which the server works on one while we take another.

    :param connection: to a server that takes commands while it has not answered yet; a proxy
        may not.
    :param asked: in order. Each has one answer.
    :raises pymysql.MySQLError: the server refused one. What else was under way was read, so the
        session goes on.
    """
    driver: Any = connection
    found: list[Answer] = []
    refused: list[pymysql.MySQLError] = []
    behind = 0
    for count, packets in _batches(connection, asked):
        if refused:
            break
        driver._write_bytes(packets)
        refused += _take(driver, behind, found)
        behind = count
    refused += _take(driver, behind, found)
    if refused:
        raise refused[0]
    return found


def _batches(connection: Connection, asked: Sequence[Question]) -> Iterator[tuple[int, bytes]]:
    """How many commands, and their packets."""
    cursor = connection.cursor()
    batch: list[bytes] = []
    size = 0
    for sql, params in asked:
        text = cursor.mogrify(sql, tuple(params) or None).encode()
        if len(text) > BATCH_BYTES:
            raise ValueError("a read that is sent ahead is short")
        if size + len(text) > BATCH_BYTES:
            yield len(batch), b"".join(batch)
            batch, size = [], 0
        batch.append(struct.pack("<iB", len(text) + 1, COM_QUERY) + text)
        size += len(text)
    yield len(batch), b"".join(batch)


def _take(driver: Any, count: int, found: list[Answer]) -> list[pymysql.MySQLError]:
    """Read so many answers.

    :returns: those that are refusals.
    :raises pymysql.MySQLError: the session is gone.
    """
    refused = []
    for _ in range(count):
        driver._next_seq_id = 1  # each command begins a count of its own
        try:
            driver._read_query_result()
        except pymysql.MySQLError as error:
            if not driver.open or ends_the_session(error):
                raise
            refused.append(error)
            continue
        if driver._result.has_next:
            driver._force_close()
            raise pymysql.err.InternalError("a read has more than one answer")
        found.append(driver._result.rows or ())
    return refused
