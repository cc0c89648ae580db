"""The ledger's DDL for MySQL and MariaDB: what a DBA is given is what the executor runs."""

from __future__ import annotations

from ptahk.wire import ledgersql, revisionsql


def test_an_account_is_named_with_its_host() -> None:
    whole = (*ledgersql.MYSQL, *revisionsql.MYSQL, revisionsql.MYSQL_FOREIGN)
    assert ledgersql.mysql() == whole
    grants = ledgersql.mysql("app@10.%")[len(whole) :]
    assert len(grants) == len(ledgersql.MYSQL_TABLES) + len(revisionsql.MYSQL_TABLES)
    assert grants[0] == "GRANT SELECT, INSERT, UPDATE ON ptahk_attempt TO 'app'@'10.%'"
    assert ledgersql.mysql("app")[-1].endswith("TO 'app'@'%'")
    assert ledgersql.mysql("o'b\\x@h")[-1].endswith("TO 'o''b\\\\x'@'h'")
