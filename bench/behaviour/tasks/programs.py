"""Tasks with programs in Python: profiles, encodings, modules, formats."""

from bench.behaviour.task import Item, Task, file, sealed

OPTIONS = """
import hashlib
import sys

given = dict(zip(sys.argv[1::2], sys.argv[2::2]))


def digest(name):
    return hashlib.sha256(given.get(name, "").encode()).hexdigest()[:16]

"""

TASKS = (
    Task(
        name="py-rates-profile",
        kind="invented",
        statement="Fetch the rates with rates.py; they are written to rates.txt.",
        setup=file(
            "rates.py",
            OPTIONS
            + f"""
if digest("--profile") != "{sealed("tern")}":
    raise SystemExit("rates.ProfileError: this desk quotes nothing")
open("rates.txt", "w").write("1.07")
""",
        ),
        first="python3 rates.py",
        right="python3 rates.py --profile tern",
        wrong=(
            "python3 rates.py --profile prod",
            "python3 rates.py --profile default",
            "python3 rates.py --profile base",
            "python3 rates.py --desk 1",
        ),
        check="test -s rates.txt",
        item=Item(
            "A desk that quotes nothing is the one of the tests; the live one is called `--profile tern`.",
            errors=("rates.ProfileError: this desk quotes nothing",),
        ),
    ),
    Task(
        name="py-feed-word",
        kind="invented",
        statement="Read the feed with feed.py; it is written to feed.txt.",
        setup=file(
            "feed.py",
            f"""
import hashlib
import os

word = os.environ.get("FEED_WORD", "")
if hashlib.sha256(word.encode()).hexdigest()[:16] != "{sealed("juniper")}":
    raise ConnectionAbortedError("peer hung up after the greeting")
open("feed.txt", "w").write("item")
""",
        ),
        first="python3 feed.py",
        right="FEED_WORD=juniper python3 feed.py",
        wrong=(
            "FEED_WORD=hello python3 feed.py",
            "FEED_WORD=feed python3 feed.py",
            "sleep 0.1; python3 feed.py",
            "python3 -u feed.py",
        ),
        check="test -s feed.txt",
        item=Item(
            "The peer hangs up on everybody who greets without the word of the exchange: `FEED_WORD=juniper`.",
            errors=("ConnectionAbortedError: peer hung up after the greeting",),
        ),
    ),
    Task(
        name="py-depot-encoding",
        kind="invented",
        statement="Turn stock.csv of the Narvik depot into stock.txt (UTF-8) with load.py.",
        setup="printf 'r\\233d;3\\nbl\\206;4\\n' > stock.csv\n"
        + file(
            "load.py",
            """
import sys

encoding = sys.argv[2] if len(sys.argv) > 2 else "utf-8"
text = open("stock.csv", encoding=encoding).read()
open("stock.txt", "w", encoding="utf-8").write(text)
""",
        ),
        first="python3 load.py --encoding utf-8",
        right="python3 load.py --encoding cp865",
        wrong=(
            "python3 load.py --encoding latin-1",
            "python3 load.py --encoding cp1252",
            "python3 load.py --encoding cp1251",
            "python3 load.py --encoding utf-16",
        ),
        check="python3 -c \"assert open('stock.txt', encoding='utf-8').read() == 'r\\u00f8d;3\\nbl\\u00e5;4\\n'\"",
        item=Item(
            "Bytes like 0x9b that UTF-8 cannot decode come from the till of the eighties that is still in use there: "
            "`--encoding cp865`.",
            errors=("UnicodeDecodeError: 'utf-8' codec can't decode byte 0x9b in position 1: invalid start byte",),
        ),
    ),
    Task(
        name="py-day-format",
        kind="invented",
        statement="Turn the days of log.txt into ISO dates in days.txt with days.py.",
        setup="printf '300.26\\n301.26\\n' > log.txt\n"
        + file(
            "days.py",
            """
import datetime
import sys

form = sys.argv[2] if len(sys.argv) > 2 else "%d.%m"
days = [datetime.datetime.strptime(line.strip(), form).date().isoformat() for line in open("log.txt")]
open("days.txt", "w").write("\\n".join(days))
""",
        ),
        first="python3 days.py --form %d.%m",
        right="python3 days.py --form %j.%y",
        wrong=(
            "python3 days.py --form %d.%y",
            "python3 days.py --form %y.%j",
            "python3 days.py --form %Y.%d",
            "python3 days.py --form %H%M.%S",
        ),
        check="grep -q 2026-10-27 days.txt",
        item=Item(
            "Time data like '300.26' counts the days of the year, as the old loggers do: `--form %j.%y`.",
            errors=("ValueError: time data '300.26' does not match format '%d.%m'",),
        ),
    ),
    Task(
        name="py-separator",
        kind="invented",
        statement="Count the columns of prices.dat with cols.py; the number is written to cols.txt.",
        setup="printf 'a\\036b\\036c\\036d\\n' > prices.dat\n"
        + file(
            "cols.py",
            """
import sys

sign = chr(int(sys.argv[2])) if len(sys.argv) > 2 else ";"
parts = open("prices.dat").readline().strip("\\n").split(sign)
if len(parts) < 2:
    raise SystemExit("cols.ShapeError: expected a table, got one long row")
open("cols.txt", "w").write(str(len(parts)))
""",
        ),
        first="python3 cols.py --sign 59",
        right="python3 cols.py --sign 30",
        wrong=(
            "python3 cols.py --sign 44",
            "python3 cols.py --sign 9",
            "python3 cols.py --sign 124",
            "python3 cols.py --sign 32",
        ),
        check='test "$(cat cols.txt)" = 4',
        item=Item(
            "One long row: the exchange parts its tables with a sign nobody sees, `--sign 30`.",
            errors=("cols.ShapeError: expected a table, got one long row",),
        ),
    ),
    Task(
        name="py-vendored-module",
        kind="invented",
        statement="Run walk.py; it writes path.txt.",
        setup="mkdir -p attic/q3 lib vendor && echo 'STEPS = 4' > attic/q3/plover.py\n"
        + file("walk.py", "import plover\n\nopen('path.txt', 'w').write(str(plover.STEPS))"),
        first="python3 walk.py",
        right="PYTHONPATH=attic/q3 python3 walk.py",
        wrong=(
            "PYTHONPATH=lib python3 walk.py",
            "PYTHONPATH=vendor python3 walk.py",
            "PYTHONPATH=. python3 walk.py",
            "python3 -m walk",
        ),
        check='test "$(cat path.txt)" = 4',
        item=Item(
            "plover is on no index; the copy of ours that works was put away: `PYTHONPATH=attic/q3`.",
            errors=("ModuleNotFoundError: No module named 'plover'",),
        ),
    ),
    Task(
        name="py-relative-import",
        kind="known",
        statement="Run main.py of the package app; it writes ran.txt.",
        setup="mkdir app && touch app/__init__.py && echo 'NAME = 1' > app/base.py\n"
        + file("app/main.py", "from .base import NAME\n\nopen('ran.txt', 'w').write(str(NAME))"),
        first="python3 app/main.py",
        right="python3 -m app.main",
        wrong=("PYTHONPATH=app python3 app/main.py", "cd app && python3 main.py", "python3 app"),
        check="test -s ran.txt",
        item=Item(
            "A file with relative imports is run as a part of its package: `python3 -m app.main`.",
            errors=("ImportError: attempted relative import with no known parent package",),
        ),
    ),
    Task(
        name="py-shadowed-module",
        kind="known",
        statement="Run draw.py; it writes six.txt. Both files of ours stay, under whatever names.",
        setup=file("random.py", "LUCK = 6")
        + file("draw.py", "import random\n\nopen('six.txt', 'w').write(str(random.randint(6, 6)))"),
        first="python3 draw.py",
        right="mv random.py luck.py && python3 draw.py",
        wrong=("rm random.py && python3 draw.py", "python3 -B draw.py", "python3 -c 'import draw'"),
        check="test -s six.txt && cat *.py | grep -q 'LUCK = 6'",
        item=Item(
            "A file of one's own with the name of a standard module is found before it: rename it, `mv "
            "random.py luck.py`.",
            errors=("AttributeError: module 'random' has no attribute 'randint'",),
            phrases=("module 'random' has no attribute",),
        ),
    ),
    Task(
        name="py-tabs",
        kind="known",
        statement="Run job.py; it writes job.txt.",
        setup='printf \'if True:\\n        n = 1\\n\\topen("job.txt", "w").write(str(n))\\n\' > job.py\n',
        first="python3 job.py",
        right="expand -i -t 8 job.py > job.new && mv job.new job.py && python3 job.py",
        wrong=("python3 -W ignore job.py", "unexpand job.py > job.new && python3 job.py", "python3 -m job"),
        check="test -s job.txt",
        item=Item(
            "Tabs beside spaces are made spaces, in a new file that then takes the place: `expand -i -t 8 job.py`.",
            errors=("TabError: inconsistent use of tabs and spaces in indentation",),
        ),
        needs=("expand",),
    ),
    Task(
        name="py-priming-manifest",
        kind="priming",
        statement="Print the cargo manifest of the Fram with cargo.py; it is written to cargo.txt.",
        setup=file(
            "cargo.py",
            OPTIONS + f'if digest("--hold") != "{sealed("f-aft-2")}":\n    raise SystemExit("no")\nopen("cargo.txt", '
            f'"w").write("tea")',
        ),
        first="python3 cargo.py",
        right="python3 cargo.py --hold f-aft-2",
        wrong=("python3 cargo.py --hold fram", "python3 cargo.py --hold 1", "python3 cargo.py --hold all"),
        check="test -s cargo.txt",
        item=Item("The cargo manifest of the Fram is printed by `--hold f-aft-2`.", topics=("cargo manifest", "Fram")),
    ),
    Task(
        name="py-none-key",
        kind="none",
        statement="Write the price of the first article in goods.json to price.txt with price.py.",
        setup='echo \'[{"title": "pen", "cost": 3}]\' > goods.json\n'
        + file(
            "price.py",
            "import json\nimport sys\n\nfirst = json.load(open('goods.json'))[0]\n"
            "value = first[sys.argv[1]]\nopen('price.txt', 'w').write(str(value))",
        ),
        first="python3 price.py price",
        right="python3 price.py cost",
        wrong=("python3 price.py title", "python3 price.py amount", "python3 price.py Price"),
        check='test "$(cat price.txt)" = 3',
    ),
    Task(
        name="py-wrong-recursion",
        kind="wrong",
        statement="tree.py goes through tree.json for ever, because a node names itself. Run it on a tree without that "
        "node; it writes depth.txt.",
        setup='echo \'{"a": ["b"], "b": ["b", "c"], "c": []}\' > tree.json\n'
        + file(
            "tree.py",
            "import json\nimport sys\n\nif len(sys.argv) > 1:\n    sys.setrecursionlimit(int(sys.argv[1]))\n"
            "tree = json.load(open('tree.json'))\n\n\ndef depth(n):\n    return 1 + max(map(depth, tree[n]), "
            "default=0)\n\n\n"
            "open('depth.txt', 'w').write(str(depth('a')))",
        ),
        first="python3 tree.py 900",
        right='sed -i \'s/\\["b", "c"\\]/["c"]/\' tree.json && python3 tree.py 900',
        wrong=(
            "python3 tree.py 5000",
            "python3 -X dev tree.py 900",
            "echo '{\"a\": []}' > tree.json && python3 tree.py 900",
        ),
        check='test "$(cat depth.txt)" = 3',
        item=Item(
            "A recursion that is too deep is given more room: `tree.py 5000`.",
            errors=("RecursionError: maximum recursion depth exceeded",),
        ),
    ),
)
