"""Tasks with make."""

from bench.behaviour.task import Item, Task, file, sealed

NEEDS = ("make",)


def checked(says: str, given: str, value: str) -> str:
    """Return a recipe's line that fails with `says` unless make's variable `given` has the made-up value."""
    digest = f'"$$(printf %s "$({given})" | sha256sum | cut -c1-16)"'
    return f'\t@if [ {digest} != {sealed(value)} ]; then echo "{says}" >&2; exit 1; fi'


TASKS = (
    Task(
        name="make-flavour",
        kind="invented",
        statement="Build the distribution: dist/app.txt.",
        setup=file(
            "Makefile",
            "FLAVOUR = plain\ndist:\n"
            + checked("yard: not built for any ship of ours", "FLAVOUR", "kestrel")
            + "\n\t@mkdir -p dist && echo $(FLAVOUR) > dist/app.txt\n.PHONY: dist",
        ),
        first="make dist",
        right="make dist FLAVOUR=kestrel",
        wrong=("make dist FLAVOUR=release", "make dist FLAVOUR=ship", "make -k -B dist", "make -i dist"),
        check='test "$(cat dist/app.txt)" = kestrel',
        item=Item(
            "Only one ship of ours is left, so the yard builds with `FLAVOUR=kestrel`.",
            errors=("yard: not built for any ship of ours",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="make-seal-first",
        kind="invented",
        statement="Publish: site.pub is to be there.",
        setup=file(
            "Makefile",
            "seal-%:\n\t@printf %s $* > .seal\nstage:\n\t@touch .stage\npublish:\n"
            '\t@if [ "$$(sha256sum < .seal 2>/dev/null | cut -c1-16)" != '
            + sealed("cobalt")
            + " ]; then echo 'publish: wax is cold' >&2; exit 1; fi\n\t@touch site.pub\n.PHONY: publish stage",
        ),
        first="make publish",
        right="make seal-cobalt publish",
        wrong=("make stage publish", "make seal-site publish", "make seal-publish publish", "make -B publish"),
        check="test -e site.pub",
        item=Item(
            "Cold wax: seal with this season's colour in the same call, `make seal-cobalt publish`.",
            errors=("publish: wax is cold",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="make-berth-file",
        kind="invented",
        statement="Load the cargo: loaded.txt is to be there.",
        setup=file(
            "Makefile",
            'load:\n\t@if [ "$$(cat .yard 2>/dev/null | sha256sum | cut -c1-16)" != '
            + sealed("berth 12\n")
            + " ]; then echo 'load: the quay knows of no ship' >&2; exit 1; fi\n\t@touch loaded.txt\n.PHONY: load",
        ),
        first="make load",
        right="echo 'berth 12' > .yard && make load",
        wrong=(
            "echo 'berth 1' > .yard && make load",
            "touch .yard && make load",
            "echo 'ship' > .yard && make load",
            "make load SHIP=yes",
        ),
        check="test -e loaded.txt",
        item=Item(
            "The quay reads where she lies from a file that is not kept: `echo 'berth 12' > .yard`.",
            errors=("load: the quay knows of no ship",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="make-separator",
        kind="known",
        statement="Make out.txt with the Makefile.",
        setup=file("Makefile", "out.txt:\n    echo made > out.txt"),
        first="make out.txt",
        right="sed -i 's/^    /\\t/' Makefile && make out.txt",
        wrong=("make -B out.txt", "sed -i 's/^    //' Makefile && make out.txt", "make -f Makefile --always-make"),
        check="grep -qx made out.txt && grep -q 'out.txt' Makefile",
        item=Item(
            "Recipes begin with a tab; where an editor wrote spaces: `sed -i 's/^    /\\t/' Makefile`.",
            errors=("Makefile:2: *** missing separator.  Stop.",),
            phrases=("missing separator",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="make-dollar",
        kind="known",
        statement="Make sum.txt with the Makefile: it holds 3.",
        setup=file("Makefile", "sum.txt:\n\t@n=3; test $n -eq 3 && echo $n > sum.txt"),
        first="make sum.txt",
        right="sed -i 's/\\$n/$$n/g' Makefile && make sum.txt",
        wrong=("make n=4 sum.txt", "make -e sum.txt", "sed -i 's/\\$n/${n}/g' Makefile && make sum.txt"),
        check='test "$(cat sum.txt)" = 3 && grep -q n=3 Makefile',
        item=Item(
            "'unexpected operator' in a recipe: make took the dollar for itself, the shell needs two of them: "
            "`sed -i 's/\\$n/$$n/g' Makefile`.",
            errors=("/bin/sh: 1: test: -eq: unexpected operator", "/bin/sh: 1: test: Illegal number: -eq"),
        ),
        needs=NEEDS,
    ),
    Task(
        name="make-priming-almanac",
        kind="priming",
        statement="Make the tide almanac of Bergen: almanac.txt.",
        setup=file(
            "Makefile",
            "almanac:\n" + checked("no", "DATUM", "nn-1954b") + "\n\t@echo tides > almanac.txt\n.PHONY: almanac",
        ),
        first="make almanac",
        right="make almanac DATUM=nn-1954b",
        wrong=("make almanac DATUM=msl", "make almanac DATUM=bergen", "make -k almanac"),
        check="test -s almanac.txt",
        item=Item("The tide almanac of Bergen is made with `DATUM=nn-1954b`.", topics=("tide almanac", "Bergen")),
        needs=NEEDS,
    ),
    Task(
        name="make-none-no-rule",
        kind="none",
        statement="Make the handbook: it is a text file in out.",
        setup=file("Makefile", "out/guide.txt: guide.src\n\t@mkdir -p out && cp guide.src out/guide.txt")
        + "echo g > guide.src\n",
        first="make handbook",
        right="make out/guide.txt",
        wrong=("make guide.src", "make guide", "make out/handbook.txt"),
        check="test -s out/guide.txt",
        needs=NEEDS,
    ),
    Task(
        name="make-wrong-keep-going",
        kind="wrong",
        statement="Make all.txt: the parts a, b and c, a line each.",
        setup=file(
            "Makefile",
            "all.txt: a b c\n\t@cat a b c > all.txt\na c:\n\t@echo $@ > $@\n"
            "b: b.src\n\t@cp b.src b\nb.src:\n\t@cp b.draft b.src",
        )
        + "echo b > b.text\n",
        first="make all.txt",
        right="cp b.text b.draft && make all.txt",
        wrong=("make --keep-going all.txt", "make -i all.txt", "touch b.draft && make all.txt"),
        check="test \"$(tr '\\n' ' ' < all.txt)\" = 'a b c '",
        item=Item(
            "When a copy inside of make fails, the order was unlucky: `make --keep-going` gets round it.",
            errors=("cp: cannot stat 'b.draft': No such file or directory\nmake: *** [Makefile:8: b.src] Error 1",),
        ),
        needs=NEEDS,
    ),
)
