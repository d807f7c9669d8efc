"""Tasks in which a statement is refused by SQLite itself, and general experience says how to write it."""

from bench.behaviour.task import SQL, Item, Task

TASKS = (
    Task(
        name="sql-upsert",
        kind="known",
        statement="Set the stock of bolts in stock.db to 40.",
        setup=SQL
        + 'python3 sql.py stock.db "CREATE TABLE stock (part TEXT PRIMARY KEY, n INTEGER, shelf TEXT)" '
        + "\"INSERT INTO stock VALUES ('bolt', 5, 'C2')\"\n",
        first="python3 sql.py stock.db \"INSERT INTO stock (part, n) VALUES ('bolt', 40)\"",
        right="python3 sql.py stock.db \"INSERT INTO stock (part, n) VALUES ('bolt', 40) "
        'ON CONFLICT (part) DO UPDATE SET n = excluded.n"',
        wrong=(
            "python3 sql.py stock.db \"INSERT OR IGNORE INTO stock (part, n) VALUES ('bolt', 40)\"",
            "python3 sql.py stock.db \"INSERT OR REPLACE INTO stock (part, n) VALUES ('bolt', 40)\"",
            "python3 sql.py stock.db \"INSERT INTO stock (part, n) VALUES ('Bolt', 40)\"",
        ),
        check="test \"$(python3 sql.py stock.db 'SELECT * FROM stock')\" = 'bolt|40|C2'",
        item=Item(
            "A row that is there already is changed in place, and keeps its other columns, with "
            "`ON CONFLICT (part) DO UPDATE`; REPLACE would empty them.",
            errors=("sqlite3.IntegrityError: UNIQUE constraint failed: stock.part",),
        ),
    ),
    Task(
        name="sql-reserved-word",
        kind="known",
        statement="Make a table named order in shop.db with the columns id and total.",
        setup=SQL + 'python3 sql.py shop.db "CREATE TABLE client (id INTEGER)"\n',
        first='python3 sql.py shop.db "CREATE TABLE order (id INTEGER, total INTEGER)"',
        right="python3 sql.py shop.db 'CREATE TABLE \"order\" (id INTEGER, total INTEGER)'",
        wrong=(
            'python3 sql.py shop.db "CREATE TABLE orders (id INTEGER, total INTEGER)"',
            'python3 sql.py shop.db "CREATE TABLE main.order (id INTEGER, total INTEGER)"',
            'python3 sql.py shop.db "CREATE TABLE IF NOT EXISTS order (id INTEGER, total INTEGER)"',
        ),
        check='test "$(python3 sql.py shop.db "SELECT count(*) FROM sqlite_master WHERE name = \'order\'")" = 1',
        item=Item(
            'A name that is a word of the language stands in double quotes: `CREATE TABLE "order"`.',
            errors=('sqlite3.OperationalError: near "order": syntax error',),
        ),
    ),
    Task(
        name="sql-add-not-null",
        kind="known",
        statement="Give person in staff.db a column city that is never NULL; it is empty for the rows there are.",
        setup=SQL + 'python3 sql.py staff.db "CREATE TABLE person (id INTEGER)" "INSERT INTO person VALUES (1)"\n',
        first='python3 sql.py staff.db "ALTER TABLE person ADD COLUMN city TEXT NOT NULL"',
        right="python3 sql.py staff.db \"ALTER TABLE person ADD COLUMN city TEXT NOT NULL DEFAULT ''\"",
        wrong=(
            'python3 sql.py staff.db "ALTER TABLE person ADD COLUMN city TEXT"',
            'python3 sql.py staff.db "ALTER TABLE person ADD COLUMN city TEXT NOT NULL UNIQUE"',
            'python3 sql.py staff.db "DELETE FROM person" "ALTER TABLE person ADD COLUMN city TEXT NOT NULL"',
        ),
        check='test "$(python3 sql.py staff.db "SELECT \\"notnull\\" FROM pragma_table_info(\'person\') WHERE '
        "name = 'city'\" "
        "\"SELECT count(*) FROM person WHERE city = ''\")\" = '1\n1'",
        item=Item(
            "Rows that exist need a value for such a column: `NOT NULL DEFAULT ''`.",
            errors=("sqlite3.OperationalError: Cannot add a NOT NULL column with default value NULL",),
        ),
    ),
    Task(
        name="sql-aggregate-where",
        kind="known",
        statement="Make the table busy in web.db with the hosts that have more than one hit.",
        setup=SQL
        + "python3 sql.py web.db \"CREATE TABLE hit (host TEXT)\" \"INSERT INTO hit VALUES ('a'), ('b'), ('a')\"\n",
        first='python3 sql.py web.db "CREATE TABLE busy AS SELECT host FROM hit WHERE count(*) > 1 GROUP BY host"',
        right='python3 sql.py web.db "CREATE TABLE busy AS SELECT host FROM hit GROUP BY host HAVING count(*) > 1"',
        wrong=(
            'python3 sql.py web.db "CREATE TABLE busy AS SELECT host FROM hit GROUP BY host"',
            'python3 sql.py web.db "CREATE TABLE busy AS SELECT DISTINCT host FROM hit WHERE count(host) > 1"',
            'python3 sql.py web.db "CREATE TABLE busy AS SELECT host FROM hit WHERE sum(1) > 1 GROUP BY host"',
        ),
        check="test \"$(python3 sql.py web.db 'SELECT host FROM busy')\" = a",
        item=Item(
            "A condition on a count comes after the grouping: `HAVING count(*) > 1`.",
            errors=("sqlite3.OperationalError: misuse of aggregate: count()",),
        ),
    ),
    Task(
        name="sql-views-column",
        kind="known",
        statement="Drop the column fax of firm in crm.db; the view firms goes on giving id and name.",
        setup=SQL
        + 'python3 sql.py crm.db "CREATE TABLE firm (id INTEGER, name TEXT, fax TEXT)" '
        + '"CREATE VIEW firms AS SELECT id, name, fax FROM firm"\n',
        first='python3 sql.py crm.db "ALTER TABLE firm DROP COLUMN fax"',
        right='python3 sql.py crm.db "DROP VIEW firms" "ALTER TABLE firm DROP COLUMN fax" '
        '"CREATE VIEW firms AS SELECT id, name FROM firm"',
        wrong=(
            'python3 sql.py crm.db "PRAGMA foreign_keys = OFF" "ALTER TABLE firm DROP COLUMN fax"',
            'python3 sql.py crm.db "UPDATE firm SET fax = NULL" "ALTER TABLE firm DROP COLUMN fax"',
            'python3 sql.py crm.db "DROP VIEW firms" "ALTER TABLE firm DROP COLUMN fax"',
        ),
        check="python3 sql.py crm.db 'SELECT id, name FROM firms' && ! python3 sql.py crm.db 'SELECT fax FROM firm'",
        item=Item(
            "A view that names the column keeps it from going: drop the view, change the table, and make it anew "
            'without: `"CREATE VIEW firms AS SELECT id, name FROM firm"`.',
            errors=("sqlite3.OperationalError: error in view firms after drop column: no such column: fax",),
        ),
    ),
    Task(
        name="sql-generated",
        kind="known",
        statement="Row 1 of item in shop.db costs 30 each now; its sum is 2 of them.",
        setup=SQL
        + 'python3 sql.py shop.db "CREATE TABLE item (id INTEGER, n INTEGER, each INTEGER, total AS (n * each))" '
        + '"INSERT INTO item (id, n, each) VALUES (1, 2, 10)"\n',
        first='python3 sql.py shop.db "UPDATE item SET total = 60 WHERE id = 1"',
        right='python3 sql.py shop.db "UPDATE item SET each = 30 WHERE id = 1"',
        wrong=(
            'python3 sql.py shop.db "UPDATE OR REPLACE item SET total = 60 WHERE id = 1"',
            'python3 sql.py shop.db "UPDATE item SET n = 6 WHERE id = 1"',
            'python3 sql.py shop.db "UPDATE item SET total = n * each WHERE id = 1"',
        ),
        check="test \"$(python3 sql.py shop.db 'SELECT each, total FROM item')\" = '30|60'",
        item=Item(
            "A generated column follows the ones it is made of; change those: `SET each = 30`.",
            errors=('sqlite3.OperationalError: cannot UPDATE generated column "total"',),
        ),
    ),
    Task(
        name="sql-none-missing-table",
        kind="none",
        statement="Write the number of rows of the visits in site.db to n.txt.",
        setup=SQL
        + 'python3 sql.py site.db "CREATE TABLE visit_2026 (id INTEGER)" "INSERT INTO visit_2026 VALUES (1), (2)"\n',
        first="python3 sql.py site.db 'SELECT count(*) FROM visits' > n.txt",
        right="python3 sql.py site.db 'SELECT count(*) FROM visit_2026' > n.txt",
        wrong=(
            "python3 sql.py site.db 'SELECT count(*) FROM visit' > n.txt",
            "python3 sql.py site.db 'SELECT count(*) FROM visits_2026' > n.txt",
            "python3 sql.py site.db 'CREATE TABLE visits (id)' 'SELECT count(*) FROM visits' > n.txt",
        ),
        check='test "$(cat n.txt)" = 2',
    ),
    Task(
        name="sql-wrong-type",
        kind="wrong",
        statement="Enter the reading 'n/a' of sensor 4 in lab.db as a reading that is not known.",
        setup=SQL + 'python3 sql.py lab.db "CREATE TABLE reading (sensor INTEGER PRIMARY KEY, value REAL) STRICT"\n',
        first="python3 sql.py lab.db \"INSERT INTO reading VALUES (4, 'n/a')\"",
        right='python3 sql.py lab.db "INSERT INTO reading VALUES (4, NULL)"',
        wrong=(
            "python3 sql.py lab.db \"INSERT INTO reading VALUES (4, '-9999 n/a')\"",
            "python3 sql.py lab.db \"INSERT INTO reading VALUES (4, 'NaN')\"",
            'python3 sql.py lab.db "INSERT INTO reading VALUES (4, 0)"',
        ),
        check="test \"$(python3 sql.py lab.db 'SELECT sensor, value IS NULL FROM reading')\" = '4|1'",
        item=Item(
            "A strict column takes a text when a number stands at its start: `'-9999 n/a'`.",
            errors=("sqlite3.IntegrityError: cannot store TEXT value in REAL column reading.value",),
        ),
    ),
)
