"""Sum files: written, verified, and what an edit of the directory looks like."""

from __future__ import annotations

import hashlib
from typing import Any

from ptahk.migrations import sums
from ptahk.migrations.files import SourceFile

FILES = {"1_a.sql": "SELECT 1;\n", "2_b.sql": "SELECT 2;\n", "10_c.sql": "SELECT 3;\n"}


def files_of(texts: dict[str, str]) -> list[SourceFile]:
    return [SourceFile(name, text) for name, text in texts.items()]


def written(layout: Any, texts: dict[str, str]) -> str:
    found = sums.write(layout, files_of(texts), [name for name in texts if name.endswith(".sql")])
    assert found is not None
    return found


def told(directory: Any, texts: dict[str, str], layout: Any = None) -> list[tuple[str, str]]:
    findings = directory(texts, layout=layout).findings
    return [(each.number, each.file) for each in findings]


def test_ptahk_sum_lists_each_file_with_its_own_hash() -> None:
    lines = written("ptahk", FILES).splitlines()
    own = hashlib.sha256(b"SELECT 3;\n").hexdigest()
    assert [line.split()[0] for line in lines] == ["ptahk.sum/1", "1_a.sql", "2_b.sql", "10_c.sql"]
    assert lines[3] == f"10_c.sql sha256:{own}"
    rest = "".join(line + "\n" for line in lines[1:])
    assert lines[0] == "ptahk.sum/1 sha256:" + hashlib.sha256(rest.encode()).hexdigest()


def test_a_sum_fits_every_checkout(directory: Any) -> None:
    windows = {name: text.replace("\n", "\r\n") for name, text in FILES.items()}
    assert told(directory, windows | {"ptahk.sum": written("ptahk", FILES)}) == []


def test_an_edit_an_addition_and_a_removal_are_named(directory: Any) -> None:
    signed = FILES | {"ptahk.sum": written("ptahk", FILES)}
    assert told(directory, signed) == []
    assert told(directory, signed | {"2_b.sql": "SELECT 4;\n"}) == [("MG111", "2_b.sql")]
    assert told(directory, signed | {"11_d.sql": "SELECT 4;\n"}) == [("MG111", "11_d.sql")]
    gone = {name: text for name, text in signed.items() if name != "2_b.sql"}
    assert told(directory, gone) == [("MG111", "ptahk.sum")]
    head, _, rest = signed["ptahk.sum"].partition("\n")
    assert told(directory, signed | {"ptahk.sum": f"{head[:-1]}x\n{rest}"}) == [
        ("MG111", "ptahk.sum")
    ]


def test_atlas_sum_is_the_one_that_atlas_writes() -> None:
    # Written by ariga.io/atlas v0.32.0 (sql/migrate, NewHashFile) for these very files.
    texts = {
        "20220318104614_team_A.sql": "CREATE TABLE t (c int);\n",
        "20220318104615_ignored.sql": "-- atlas:sum ignore\nCREATE TABLE i (c int);\n",
        "20220318104616_B.sql": "ALTER TABLE t ADD d int;\n",
    }
    assert written("atlas", texts) == ATLAS


ATLAS = """h1:J4WxKpGx3WyHEqc8WDaqlNCuWDTOK0D9RCbG7UplAJs=
20220318104614_team_A.sql h1:6BK/C5BfaD5RvdCrh+kvJ/xe+fBsDcVbJCPvJYoxyWU=
20220318104616_B.sql h1:KNCsW9EYcvp/ZgK0zxOIEo+C6EklmlUrJvuZ8EFS5O4=
"""


def test_atlas_sums_chain(directory: Any) -> None:
    names = {f"0{name}" if len(name) == 7 else name: text for name, text in FILES.items()}
    signed = names | {"atlas.sum": written("atlas", dict(sorted(names.items())))}
    assert told(directory, signed) == []
    assert told(directory, signed | {"02_b.sql": "SELECT 4;\n"}) == [("MG111", "02_b.sql")]
    assert told(directory, signed | {"03_d.sql": "SELECT 4;\n"})[0] == ("MG111", "03_d.sql")


def test_layouts_without_a_sum() -> None:
    assert sums.write("goose", files_of(FILES), list(FILES)) is None
