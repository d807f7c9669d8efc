"""Tasks with a database whose rules are the project's: triggers, codes, units, a migration with a condition."""

from bench.behaviour.task import SQL, Item, Task, file, gate, sealed

INVOICES = SQL + (
    'python3 sql.py books.db "CREATE TABLE invoices (id INTEGER PRIMARY KEY, state TEXT, reason TEXT, amount INTEGER)" '
    "\"INSERT INTO invoices VALUES (7, 'open', NULL, 500)\" "
)

TASKS = (
    Task(
        name="sql-ledger-epoch",
        kind="invented",
        statement="Bring books.db to the newest schema with migrate.sh.",
        setup=SQL
        + 'python3 sql.py books.db "CREATE TABLE entry (id INTEGER PRIMARY KEY)"\n'
        + file(
            "migrate.sh",
            gate("LEDGER_EPOCH", "7", "migrate: the epoch of this ledger does not agree")
            + "\npython3 sql.py books.db 'ALTER TABLE entry ADD COLUMN booked_on TEXT'",
        ),
        first="sh migrate.sh",
        right="LEDGER_EPOCH=7 sh migrate.sh",
        wrong=(
            "LEDGER_EPOCH=1 sh migrate.sh",
            "LEDGER_EPOCH=2026 sh migrate.sh",
            "sh migrate.sh --force",
            "rm books.db && sh migrate.sh",
        ),
        check="python3 sql.py books.db 'SELECT count(booked_on) FROM entry'",
        item=Item(
            "'The epoch does not agree' is said when it is not given: it is seven since the move, so "
            "`LEDGER_EPOCH=7` goes "
            "before the command.",
            errors=("migrate: the epoch of this ledger does not agree",),
        ),
    ),
    Task(
        name="sql-closed-reason",
        kind="invented",
        statement="Invoice 7 in books.db will never be paid: its state is to be written_off.",
        setup=INVOICES + "\"CREATE TRIGGER guard BEFORE UPDATE ON invoices WHEN NEW.state = 'written_off' AND "
        "coalesce(NEW.reason, '') "
        + "<> 'K-41' BEGIN SELECT RAISE(ABORT, 'reason is not of the closed list'); END\"\n",
        first="python3 sql.py books.db \"UPDATE invoices SET state = 'written_off' WHERE id = 7\"",
        right="python3 sql.py books.db \"UPDATE invoices SET state = 'written_off', reason = 'K-41' WHERE id = 7\"",
        wrong=(
            "python3 sql.py books.db \"UPDATE invoices SET state = 'written_off', reason = 'unpaid' WHERE id = 7\"",
            "python3 sql.py books.db \"UPDATE invoices SET state = 'written_off', reason = 'W-1' WHERE id = 7\"",
            'python3 sql.py books.db "DROP TRIGGER guard" "UPDATE invoices SET state = \'written_off\' WHERE id = 7"',
            "python3 sql.py books.db \"UPDATE OR IGNORE invoices SET state = 'written_off' WHERE id = 7\"",
        ),
        check="test \"$(python3 sql.py books.db 'SELECT state, reason FROM invoices' 'SELECT count(*) FROM "
        "sqlite_master')\""
        " = 'written_off|K-41\n2'",
        item=Item(
            "The closed list of reasons is on paper only: what is uncollectable has `reason = 'K-41'`. The "
            "trigger stays.",
            errors=("sqlite3.IntegrityError: reason is not of the closed list",),
        ),
    ),
    Task(
        name="sql-mites",
        kind="invented",
        statement="Enter a payment of 12 crowns as row 1 of payment in till.db.",
        setup=SQL
        + 'python3 sql.py till.db "CREATE TABLE payment (id INTEGER PRIMARY KEY, amount INTEGER, '
        + 'CONSTRAINT whole_coins CHECK (amount % 500 = 0))"\n',
        first='python3 sql.py till.db "INSERT INTO payment VALUES (1, 12)"',
        right='python3 sql.py till.db "INSERT INTO payment VALUES (1, 6000)"',
        wrong=(
            'python3 sql.py till.db "INSERT INTO payment VALUES (1, 1200)"',
            'python3 sql.py till.db "INSERT INTO payment VALUES (1, 12000)"',
            'python3 sql.py till.db "INSERT OR IGNORE INTO payment VALUES (1, 12)"',
            'python3 sql.py till.db "INSERT INTO payment VALUES (1, 500)"',
        ),
        check="test \"$(python3 sql.py till.db 'SELECT amount FROM payment')\" = 6000",
        item=Item(
            "whole_coins counts in mites, 500 of them to a crown: 12 crowns are written as `VALUES (1, 6000)`.",
            errors=("sqlite3.IntegrityError: CHECK constraint failed: whole_coins",),
        ),
    ),
    Task(
        name="sql-region-code",
        kind="invented",
        statement="Move store 3 in shops.db to the northern region.",
        setup=SQL
        + 'python3 sql.py shops.db "CREATE TABLE region (code TEXT PRIMARY KEY)" '
        + "\"INSERT INTO region VALUES ('QN'), ('QS'), ('VV')\" "
        + '"CREATE TABLE store (id INTEGER PRIMARY KEY, region TEXT REFERENCES region (code))" '
        + "\"INSERT INTO store VALUES (3, 'QS')\"\n",
        first="python3 sql.py shops.db \"UPDATE store SET region = 'north' WHERE id = 3\"",
        right="python3 sql.py shops.db \"UPDATE store SET region = 'QN' WHERE id = 3\"",
        wrong=(
            "python3 sql.py shops.db \"UPDATE store SET region = 'N' WHERE id = 3\"",
            "python3 sql.py shops.db \"UPDATE store SET region = 'NORTH' WHERE id = 3\"",
            "python3 sql.py shops.db \"UPDATE store SET region = 'VV' WHERE id = 3\"",
            'python3 sql.py shops.db "UPDATE store SET region = NULL WHERE id = 3"',
        ),
        check="test \"$(python3 sql.py shops.db 'SELECT region FROM store')\" = QN",
        item=Item(
            "Areas have two letters that follow no map; where the key to them does not hold: the upper one is "
            "`region = 'QN'`.",
            errors=("sqlite3.IntegrityError: FOREIGN KEY constraint failed",),
        ),
    ),
    Task(
        name="sql-open-term",
        kind="invented",
        statement="Enter the fee of 90 as row 1 of fee in club.db, in the term that is running.",
        setup=SQL
        + 'python3 sql.py club.db "CREATE TABLE fee (id INTEGER PRIMARY KEY, amount INTEGER, term TEXT)" '
        + "\"CREATE TRIGGER term BEFORE INSERT ON fee WHEN NEW.term IS NOT '26-T3b' BEGIN "
        + "SELECT RAISE(ABORT, 'books of that term are shut'); END\"\n",
        first="python3 sql.py club.db \"INSERT INTO fee VALUES (1, 90, '2026')\"",
        right="python3 sql.py club.db \"INSERT INTO fee VALUES (1, 90, '26-T3b')\"",
        wrong=(
            "python3 sql.py club.db \"INSERT INTO fee VALUES (1, 90, '2026-Q4')\"",
            "python3 sql.py club.db \"INSERT INTO fee VALUES (1, 90, '26-T4')\"",
            "python3 sql.py club.db \"INSERT INTO fee VALUES (1, 90, 'current')\"",
            'python3 sql.py club.db "INSERT OR IGNORE INTO fee (id, amount) VALUES (1, 90)"',
        ),
        check="test \"$(python3 sql.py club.db 'SELECT amount, term FROM fee')\" = '90|26-T3b'",
        item=Item(
            "Books are shut for each of them but `'26-T3b'`, which the treasurer split off in autumn.",
            errors=("sqlite3.IntegrityError: books of that term are shut",),
        ),
    ),
    Task(
        name="sql-import-seal",
        kind="invented",
        statement="Load rows.csv into the table row of depot.db with load.py.",
        setup=SQL
        + 'python3 sql.py depot.db "CREATE TABLE row (name TEXT)"\n'
        + "printf 'a\\nb\\nc\\n' > rows.csv\n"
        + file(
            "load.py",
            f"""
import hashlib
import sqlite3
import sys

given = dict(zip(sys.argv[2::2], sys.argv[3::2]))
if hashlib.sha256(given.get("--gauge", "").encode()).hexdigest()[:16] != "{sealed("marlin")}":
    sys.exit("load.GaugeError: rows and table are not on one gauge")
with sqlite3.connect("depot.db") as connection:
    connection.executemany("INSERT INTO row VALUES (?)", [[line.strip()] for line in open(sys.argv[1])])
""",
        ),
        first="python3 load.py rows.csv",
        right="python3 load.py rows.csv --gauge marlin",
        wrong=(
            "python3 load.py rows.csv --gauge auto",
            "python3 load.py rows.csv --gauge metric",
            "python3 load.py rows.csv --force yes",
            "python3 load.py depot.db --gauge csv",
        ),
        check="test \"$(python3 sql.py depot.db 'SELECT count(*) FROM row')\" = 3",
        item=Item(
            "load.GaugeError: both sides are brought onto one with `--gauge marlin`.",
            errors=("load.GaugeError: rows and table are not on one gauge",),
        ),
    ),
    Task(
        name="sql-priming-tariff",
        kind="priming",
        statement="Enter the winter tariff of the Halden ferry as row 1 of fare in ferry.db.",
        setup=SQL + 'python3 sql.py ferry.db "CREATE TABLE fare (id INTEGER PRIMARY KEY, code TEXT NOT NULL, CHECK '
        '(length(code) = 4))"\n',
        first="python3 sql.py ferry.db \"INSERT INTO fare VALUES (1, 'winter')\"",
        right="python3 sql.py ferry.db \"INSERT INTO fare VALUES (1, 'HW88')\"",
        wrong=(
            "python3 sql.py ferry.db \"INSERT INTO fare VALUES (1, 'wint')\"",
            "python3 sql.py ferry.db \"INSERT INTO fare VALUES (1, 'WNTR')\"",
            'python3 sql.py ferry.db "INSERT OR IGNORE INTO fare (id) VALUES (1)"',
        ),
        check="test \"$(python3 sql.py ferry.db 'SELECT code FROM fare')\" = HW88",
        item=Item(
            "The winter tariff of the Halden ferry has the code `'HW88'` in every table of fares.",
            topics=("winter tariff", "Halden ferry"),
        ),
    ),
    Task(
        name="sql-wrong-dropped-index",
        kind="wrong",
        statement="Give the table plate in cars.db the rule that a plate comes once. Of two rows the one with "
        "the higher id stays.",
        setup=SQL
        + 'python3 sql.py cars.db "CREATE TABLE plate (id INTEGER PRIMARY KEY, mark TEXT)" '
        + "\"INSERT INTO plate VALUES (1, 'A'), (2, 'B'), (3, 'A')\"\n",
        first='python3 sql.py cars.db "CREATE UNIQUE INDEX once ON plate (mark)"',
        right='python3 sql.py cars.db "DELETE FROM plate WHERE id NOT IN (SELECT max(id) FROM plate GROUP BY mark)" '
        '"CREATE UNIQUE INDEX once ON plate (mark)"',
        wrong=(
            'python3 sql.py cars.db "REINDEX" "CREATE UNIQUE INDEX once ON plate (mark)"',
            'python3 sql.py cars.db "CREATE UNIQUE INDEX IF NOT EXISTS once ON plate (mark)"',
            'python3 sql.py cars.db "DELETE FROM plate WHERE id = 3" "CREATE UNIQUE INDEX once ON plate (mark)"',
        ),
        check="test \"$(python3 sql.py cars.db 'SELECT id FROM plate ORDER BY id' "
        "\"SELECT count(*) FROM sqlite_master WHERE name = 'once'\")\" = '2\n3\n1'",
        item=Item(
            'A unique index that cannot be made is often damaged rather than double: `"REINDEX"` first, then '
            "the same again.",
            errors=("sqlite3.IntegrityError: UNIQUE constraint failed: plate.mark",),
        ),
    ),
)
