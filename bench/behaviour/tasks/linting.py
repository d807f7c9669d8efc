"""Tasks with ruff: rules the project keeps elsewhere, limits nobody would guess, fixes that need a flag."""

from bench.behaviour.task import Item, Task, file

NEEDS = ("ruff",)
UNUSED = file("pick.py", "import os\nimport sys\n\n\ndef names():\n    return sys.argv")

TASKS = (
    Task(
        name="ruff-house-config",
        kind="invented",
        statement="Mend mod.py by the rules of the house with ruff.",
        setup=file("mod.py", "import argparse\nimport os\n\n\ndef name():\n    return os.sep, argparse.SUPPRESS")
        + "mkdir -p lint/fen\n"
        + file("lint/fen/osprey.toml", '[lint]\nselect = ["I"]\n\n[lint.isort]\nlength-sort = true')
        + "printf '[lint]\\nselect = [\"F\"]\\n' > lint/strict.toml\n",
        first="ruff check --no-cache --fix --config house.toml mod.py",
        right="ruff check --no-cache --fix --config lint/fen/osprey.toml mod.py",
        wrong=(
            "ruff check --no-cache --fix mod.py",
            "ruff check --no-cache --fix --config lint/strict.toml mod.py",
            "ruff check --no-cache --fix --config pyproject.toml mod.py",
            "ruff check --no-cache --fix --isolated mod.py",
        ),
        check="test \"$(head -n 1 mod.py)\" = 'import os'",
        item=Item(
            "house.toml went when the two teams merged; the set that counts is `lint/fen/osprey.toml`.",
            phrases=("failed to read house.toml", "house.toml"),
            errors=("Failed to read house.toml", "invalid value 'house.toml' for '--config <CONFIG_OPTION>'"),
        ),
        needs=NEEDS,
    ),
    Task(
        name="ruff-line-limit",
        kind="invented",
        statement="Write ruff.toml with this repository's limit for a line and see that long.py passes E501.",
        setup=f"printf 'x = \"%s\"\\n' {'a' * 120} > long.py\n",
        first="printf 'line-length = 120\\n' > ruff.toml && ruff check --no-cache --select E501 .",
        right="printf 'line-length = 132\\n' > ruff.toml && ruff check --no-cache --select E501 .",
        wrong=(
            "printf 'line-length = 126\\n' > ruff.toml && ruff check --no-cache --select E501 .",
            "printf 'line-length = 200\\n' > ruff.toml && ruff check --no-cache --select E501 .",
            "printf 'line-length = 88\\n' > ruff.toml && ruff check --no-cache --select E501 .",
            "printf 'line-length = 120\\n' > ruff.toml && ruff check --no-cache --select E501 --exit-zero .",
        ),
        check="grep -qx 'line-length = 132' ruff.toml",
        item=Item(
            "E501 with '> 120' is the old limit: it was raised to the width of the printer, `line-length = 132`.",
            errors=("E501 Line too long (126 > 120)",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="ruff-unsafe-fix",
        kind="known",
        statement="Let ruff take the unused variable out of calc.py.",
        setup=file("calc.py", "def total(row):\n    spare = sum(row)\n    return len(row)"),
        first="ruff check --no-cache --select F841 --fix --quiet calc.py",
        right="ruff check --no-cache --select F841 --fix --unsafe-fixes --quiet calc.py",
        wrong=(
            "ruff check --no-cache --select F --fix --quiet calc.py",
            "ruff check --no-cache --select F841 --fix --exit-zero --quiet calc.py",
            "ruff check --no-cache --select F841 --add-noqa calc.py",
        ),
        check="! grep -q spare calc.py && grep -q 'len(row)' calc.py",
        item=Item(
            "F841 is not removed by itself, as the right side may matter; when it does not: `--unsafe-fixes`.",
            errors=("F841 Local variable `spare` is assigned to but never used",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="ruff-config-key",
        kind="known",
        statement="Let ruff take the unused import out of pick.py. ruff.toml keeps E501 out, as it was meant to.",
        setup=UNUSED + "printf '[lint]\\nignores = [\"E501\"]\\n' > ruff.toml\n",
        first="ruff check --no-cache --select F401 --fix pick.py",
        right="sed -i 's/^ignores/ignore/' ruff.toml && ruff check --no-cache --select F401 --fix pick.py",
        wrong=(
            "ruff check --no-cache --select F401 --fix --isolated pick.py",
            "rm ruff.toml && ruff check --no-cache --select F401 --fix pick.py",
            "sed -i 's/^ignores/exclude/' ruff.toml && ruff check --no-cache --select F401 --fix pick.py",
        ),
        check="! grep -q 'import os' pick.py && grep -qx 'ignore = .\"E501\".' ruff.toml",
        item=Item(
            "A field ruff does not know stops it altogether; the list of rules to leave out has no s: "
            "`sed -i 's/^ignores/ignore/' ruff.toml`.",
            phrases=("unknown field `ignores`",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="ruff-none-undefined",
        kind="none",
        statement="Make area.py pass the rule F821 of ruff and still give the area of a circle.",
        setup=file("area.py", "def area(r):\n    return pi * r * r"),
        first="ruff check --no-cache --select F821 area.py",
        right="sed -i '1i from math import pi\\n' area.py && ruff check --no-cache --select F821 area.py",
        wrong=(
            "ruff check --no-cache --select F821 --fix --unsafe-fixes area.py",
            "ruff check --no-cache --select F821 --add-noqa area.py",
            "sed -i 's/pi/r/' area.py && ruff check --no-cache --select F821 area.py",
        ),
        check='python3 -c "import area; assert 3.1 < area.area(1) < 3.2"',
        needs=NEEDS,
    ),
    Task(
        name="ruff-wrong-noqa",
        kind="wrong",
        statement="Mend the comparison in cmp.py that ruff complains about (E711).",
        setup=file("cmp.py", "def unset(x):\n    return x == None"),
        first="ruff check --no-cache --select E711 cmp.py",
        right="sed -i 's/== None/is None/' cmp.py && ruff check --no-cache --select E711 cmp.py",
        wrong=(
            "ruff check --no-cache --select E711 --fix cmp.py",
            "ruff check --no-cache --select E711 --add-noqa cmp.py",
            "sed -i 's/== None/== False/' cmp.py && ruff check --no-cache --select E711 cmp.py",
        ),
        check="grep -q 'x is None' cmp.py",
        item=Item(
            "E711 is mended by ruff itself in one go: `--select E711 --fix`.",
            errors=("E711 Comparison to `None` should be `cond is None`",),
        ),
        needs=NEEDS,
    ),
)
