"""The declaration that planning is measured with: N tables of ten columns, with what tables have.

Every table has a primary key, a foreign key to its predecessor, a check, an index and a comment,
and its columns differ in type, default and nullability: three statements and eight lines a table,
for MySQL and MariaDB two statements and eleven lines.
"""

from __future__ import annotations

TABLES = 1000
COLUMNS = 10

_TABLE = """
CREATE TABLE t{n:04d} (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, code text NOT NULL,
  parent bigint REFERENCES t{before:04d} (id), amount numeric(12,2) NOT NULL DEFAULT 0,
  state text NOT NULL DEFAULT 'new', note varchar(200), made timestamptz NOT NULL DEFAULT now(),
  flags integer[], payload jsonb, open boolean NOT NULL DEFAULT true,
  CONSTRAINT t{n:04d}_amount CHECK (amount >= 0)
);
CREATE INDEX t{n:04d}_code ON t{n:04d} (code, made);
COMMENT ON TABLE t{n:04d} IS 'Table {n} of the benchmark';
"""

_MY_TABLE = """
CREATE TABLE t{n:04d} (
  id bigint AUTO_INCREMENT PRIMARY KEY, code varchar(190) NOT NULL,
  parent bigint, amount decimal(12,2) NOT NULL DEFAULT 0,
  state varchar(20) NOT NULL DEFAULT 'new', note varchar(200),
  made datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
  flags set('a','b','c'), payload json, open boolean NOT NULL DEFAULT true,
  CONSTRAINT t{n:04d}_parent FOREIGN KEY (parent) REFERENCES t{before:04d} (id),
  CONSTRAINT t{n:04d}_amount CHECK (amount >= 0)
) COMMENT 'Table {n} of the benchmark';
CREATE INDEX t{n:04d}_code ON t{n:04d} (code, made);
"""
_TEMPLATES = {"postgresql": _TABLE, "mysql": _MY_TABLE}


def declaration(tables: int = TABLES, engine: str = "postgresql") -> str:
    """SQL text of the declaration; the same every time."""
    text = _TEMPLATES[engine]
    return "".join(text.format(n=n, before=max(n - 1, 0)) for n in range(tables))
