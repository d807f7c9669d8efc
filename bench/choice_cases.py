"""Invented situations for a model that chooses its next command: what failed, what it may do next, what is known.

None of the right commands can be told from the task or the error: each rests on a fact of an invented project, which
only the hint says. A placebo is a hint of like length on another matter; a decoy is a wrong hint that names one of the
other commands.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ChoiceCase:
    """One situation. `commands` hold the failed one first, the right one at the place `right`, and plausible others;
    the wrong hint speaks for the one at the place `decoyed`."""

    name: str
    task: str
    failed: str
    output: str
    commands: tuple[str, ...]
    right: int
    hint: str
    placebo: str
    decoy: str
    decoyed: int


CASES: Final = (
    ChoiceCase(
        "push-branch",
        "Publish the finished change of the parser.",
        "git push origin main",
        "error: remote rejected main (pre-receive hook declined)",
        (
            "git push origin main",
            "git push origin HEAD:intake/parser",
            "git push origin HEAD:review/parser",
            "git push origin HEAD:staging/parser",
            "git push --force origin main",
        ),
        1,
        "Changes enter through the intake branches: run `git push origin HEAD:intake/parser`.",
        "The nightly report is written by `python tools/nightly.py --since yesterday`, before six.",
        "Changes enter through the staging branches: run `git push origin HEAD:staging/parser`.",
        3,
    ),
    ChoiceCase(
        "database-port",
        "Count the orders of the shop's database.",
        "psql -p 5432 shop -c 'select count(*) from orders'",
        "psql: error: connection to server on port 5432 failed: Connection refused",
        (
            "psql -p 5432 shop -c 'select count(*) from orders'",
            "psql -p 5433 shop -c 'select count(*) from orders'",
            "psql -p 6432 shop -c 'select count(*) from orders'",
            "psql -p 7741 shop -c 'select count(*) from orders'",
            "psql -h localhost shop -c 'select count(*) from orders'",
        ),
        3,
        "The shop's database listens on port 7741 on this machine.",
        "The shop's picture archive is packed once a week by cron.",
        "The shop's database listens on port 6432 on this machine.",
        2,
    ),
    ChoiceCase(
        "missing-column",
        "List the e-mail addresses of active customers.",
        'sqlite3 crm.db "select email from customers where active = 1"',
        "Error: in prepare, no such column: active",
        (
            'sqlite3 crm.db "select email from customers where active = 1"',
            'sqlite3 crm.db "select email from customers where enabled = 1"',
            'sqlite3 crm.db "select email from customers where status = 1"',
            'sqlite3 crm.db "select email from customers where deleted = 0"',
            'sqlite3 crm.db "select email from customers where tier > 0"',
        ),
        4,
        "A customer is active when its tier is over 0: `where tier > 0`.",
        "Invoices are numbered by year: the first of 2031 is 31-0001.",
        "A customer is active when it is not deleted: `where deleted = 0`.",
        3,
    ),
    ChoiceCase(
        "archive-password",
        "Unpack the archive of the March reports.",
        "7z x march.7z",
        "ERROR: Wrong password? Data error in encrypted file: report-03.csv",
        (
            "7z x march.7z",
            "7z x -pmarch march.7z",
            "7z x -pheron march.7z",
            "7z x -pkestrel march.7z",
            "7z t march.7z",
        ),
        2,
        "Archives of monthly reports are packed with the word heron.",
        "Meeting rooms on the second floor are named after rivers.",
        "Archives of monthly reports are packed with the word kestrel.",
        3,
    ),
    ChoiceCase(
        "lint-config",
        "Check the style of the package.",
        "ruff check src",
        "ruff failed: Failed to parse ruff.toml: unknown field `house`",
        (
            "ruff check src",
            "ruff check --isolated src",
            "ruff check --config tools/plain.toml src",
            "ruff check --config tools/strict.toml src",
            "ruff check --config setup.cfg src",
        ),
        3,
        "The settings that ruff reads are in `tools/strict.toml`; `ruff.toml` is for a fork of it.",
        "The clock of the test bench runs on UTC; its offset is kept in `bench/offset.txt`.",
        "The settings that ruff reads are in `tools/plain.toml`; `ruff.toml` is for a fork of it.",
        2,
    ),
    ChoiceCase(
        "tar-layout",
        "Restore the folder `site` from the backup.",
        "tar xf backup.tar site",
        "tar: site: Not found in archive",
        (
            "tar xf backup.tar site",
            "tar xf backup.tar ./site",
            "tar xf backup.tar www/site",
            "tar xf backup.tar export/v2/site",
            "tar xf backup.tar home/site",
        ),
        3,
        "Backups keep every folder below `export/v2`.",
        "Printers are served by the host `inkwell`.",
        "Backups keep every folder below `home`.",
        4,
    ),
    ChoiceCase(
        "build-target",
        "Build the firmware of the lamp.",
        "make firmware",
        "make: *** No rule to make target 'firmware'.  Stop.",
        (
            "make firmware",
            "make all",
            "make image",
            "make lamp-rom",
            "make flash",
        ),
        3,
        "The firmware of a lamp is built by the target `lamp-rom`.",
        "The lamp's manual is kept in seven languages by the press.",
        "The firmware of a lamp is built by the target `image`.",
        2,
    ),
    ChoiceCase(
        "test-marker",
        "Run the fast tests.",
        "pytest -m fast",
        "ERROR: 'fast' not found in `markers` configuration option",
        (
            "pytest -m fast",
            "pytest -m unit",
            "pytest -m quick",
            "pytest -m smoke",
            "pytest -m pebble",
        ),
        4,
        "Tests that take under a second carry the marker `pebble`.",
        "Screens of the kiosk are cleaned every second Thursday.",
        "Tests that take under a second carry the marker `smoke`.",
        3,
    ),
    ChoiceCase(
        "queue-name",
        "Empty the queue of letters that wait to be sent.",
        "postq purge outgoing",
        "postq: there is no queue named outgoing",
        (
            "postq purge outgoing",
            "postq purge letters",
            "postq purge pending",
            "postq purge drain-7",
            "postq list --all",
        ),
        3,
        "Letters that wait to be sent lie in the queue drain-7.",
        "Stamps of the old series are valid until next autumn.",
        "Letters that wait to be sent lie in the queue pending.",
        2,
    ),
    ChoiceCase(
        "date-format",
        "Import the readings of the river gauge.",
        "gauge import readings.csv",
        "gauge: line 2: the date 07/11/31 can be read in several ways; give --dates",
        (
            "gauge import readings.csv",
            "gauge import --dates dmy readings.csv",
            "gauge import --dates mdy readings.csv",
            "gauge import --dates ymd readings.csv",
            "gauge check readings.csv",
        ),
        3,
        "The river gauge writes the year first: `--dates ymd`.",
        "The lock keeper's house is let from May to August.",
        "The river gauge writes the month first: `--dates mdy`.",
        2,
    ),
    ChoiceCase(
        "container-tag",
        "Start the shop's search server.",
        "podman run shop/search:latest",
        "Error: initializing source docker://shop/search:latest: manifest unknown",
        (
            "podman run shop/search:latest",
            "podman run shop/search:stable",
            "podman run shop/search:main",
            "podman run shop/search:amber-4",
            "podman run shop/search:v1",
        ),
        3,
        "Images of the shop are tagged by colour: the current one is amber-4.",
        "Desks of the office are booked by colour: the quiet ones are at the window.",
        "Images of the shop are tagged by name: the current one is stable.",
        1,
    ),
    ChoiceCase(
        "licence-server",
        "Simulate the bridge under wind.",
        "bridgesim run wind.yaml",
        "bridgesim: no licence: the server licence.example did not answer",
        (
            "bridgesim run wind.yaml",
            "bridgesim run --licence floating wind.yaml",
            "bridgesim run --licence node wind.yaml",
            "bridgesim run --licence campus wind.yaml",
            "bridgesim run --offline wind.yaml",
        ),
        3,
        "On the machines of the faculty bridgesim runs with the licence `campus`.",
        "On the roof of the faculty the weather mast is read each full hour.",
        "On the machines of the faculty bridgesim runs with the licence `node`.",
        2,
    ),
    ChoiceCase(
        "unicode-name",
        "Открой отчёт за март и посчитай строки.",
        "wc -l отчёт.txt",
        "wc: отчёт.txt: No such file or directory",
        (
            "wc -l отчёт.txt",
            "wc -l отчёт-март.txt",
            "wc -l март/отчёт.txt",
            "wc -l архив/март.txt",
            "wc -l отчет.txt",
        ),
        3,
        "Отчёты по месяцам лежат в папке «архив»: `архив/март.txt`.",
        "Ключ от серверной лежит у вахтёра, выдают его по списку.",
        "Отчёты по месяцам лежат в папке месяца: `март/отчёт.txt`.",
        2,
    ),
    ChoiceCase(
        "lock-holder",
        "Apply the migrations of the billing service.",
        "billing migrate",
        "billing: the migration lock is held by another process",
        (
            "billing migrate",
            "billing migrate --force",
            "billing migrate --wait 60",
            "billing migrate --as ledger",
            "billing unlock",
        ),
        3,
        "Migrations of billing are applied in the name of the ledger: `billing migrate --as ledger`.",
        "Deliveries to the canteen are signed for in the name of the kitchen, at the back door.",
        "A lock of billing that is left over is taken away: `billing unlock`.",
        4,
    ),
    ChoiceCase(
        "negated",
        "Deploy the new version of the gate.",
        "deployer push gate",
        "deployer: the stage of gate is not set",
        (
            "deployer push gate",
            "deployer push gate --stage blue",
            "deployer push gate --stage green",
            "deployer push gate --stage canary",
            "deployer status gate",
        ),
        2,
        "Never deploy the gate with `--stage blue`; its stage is `green`.",
        "Never open the gate's cabinet by hand; its key is with Security.",
        "Never deploy the gate with `--stage green`; its stage is `canary`.",
        3,
    ),
)
