"""Tasks with tar, gzip and checksums."""

from bench.behaviour.task import Item, Task, file, sealed

TAR, GZIP = ("tar",), ("tar", "gzip")
DOCS = "mkdir -p docs && echo a > docs/a.txt && echo b > docs/b.txt\n"

TASKS = (
    Task(
        name="tar-parcel-layout",
        kind="invented",
        statement="Pack docs as bundle.tar and hand it in with drop.sh.",
        setup=DOCS
        + file(
            "drop.sh",
            f"""top=$(tar -tf "$1" | sed -n 1p | cut -d/ -f1)
if [ "$(printf %s "$top" | sha256sum | cut -c1-16)" != {sealed("parcel-9")} ]; then
    echo "drop: this is no parcel" >&2
    exit 4
fi
cp "$1" handed-in.tar""",
        ),
        first="tar -cf bundle.tar docs && sh drop.sh bundle.tar",
        right="tar -cf bundle.tar --transform 's,^,parcel-9/,' docs && sh drop.sh bundle.tar",
        wrong=(
            "tar -cf bundle.tar --transform 's,^,parcel/,' docs && sh drop.sh bundle.tar",
            "tar -cf bundle.tar -C docs . && sh drop.sh bundle.tar",
            "tar -czf bundle.tar docs && sh drop.sh bundle.tar",
            "tar -cf bundle.tar docs && sh drop.sh bundle.tar --force",
        ),
        check="tar -tf handed-in.tar | grep -qx parcel-9/docs/a.txt",
        item=Item(
            "'No parcel' is said of the top folder: everything lies below parcel-9, as `--transform "
            "'s,^,parcel-9/,'` puts it.",
            errors=("drop: this is no parcel",),
        ),
        needs=TAR,
    ),
    Task(
        name="checksum-length",
        kind="invented",
        statement="Check the files of the delivery by its MANIFEST; what the check prints goes into verified.txt.",
        setup="echo a > a.bin && echo b > b.bin && b2sum -l 168 a.bin b.bin > MANIFEST\n",
        first="sha256sum -c MANIFEST > verified.txt",
        right="b2sum -l 168 -c MANIFEST > verified.txt",
        wrong=(
            "md5sum -c MANIFEST > verified.txt",
            "sha1sum -c MANIFEST > verified.txt",
            "sha512sum -c MANIFEST > verified.txt",
            "sha224sum -c MANIFEST > verified.txt",
        ),
        check="grep -qx 'a.bin: OK' verified.txt && grep -qx 'b.bin: OK' verified.txt",
        item=Item(
            "A delivery of ours has digests of its own length; other programs find no proper line in it: `b2sum "
            "-l 168 -c`.",
            phrases=("no properly formatted checksum lines found",),
            errors=("sha256sum: MANIFEST: no properly formatted checksum lines found",),
        ),
        needs=("b2sum", "sha256sum"),
    ),
    Task(
        name="tar-shelf-key",
        kind="invented",
        statement="Unpack box.tar with open.sh.",
        setup=DOCS
        + "tar -cf box.tar docs && rm -r docs\n"
        + file(
            "open.sh",
            f"""if [ "$(printf %s "${{2-}}" | sha256sum | cut -c1-16)" != {sealed("rowan")} ]; then
    echo "open: shelf mark is wanting" >&2
    exit 5
fi
tar -xf "$1" """,
        ),
        first="sh open.sh box.tar",
        right="sh open.sh box.tar rowan",
        wrong=(
            "sh open.sh box.tar docs",
            "sh open.sh box.tar A1",
            "sh open.sh box.tar --all",
            "sh open.sh ./box.tar box",
        ),
        check="test -f docs/a.txt",
        item=Item(
            "A shelf mark that is wanting is the name of a tree, and this shelf is `rowan`.",
            errors=("open: shelf mark is wanting",),
        ),
        needs=TAR,
    ),
    Task(
        name="tar-not-gzip",
        kind="known",
        statement="Unpack data.tar.gz here.",
        setup=DOCS + "tar -cf data.tar.gz docs && rm -r docs\n",
        first="tar -xzf data.tar.gz",
        right="tar -xf data.tar.gz",
        wrong=("gunzip data.tar.gz", "tar -xjf data.tar.gz", "gunzip -f data.tar.gz && tar -xf data.tar"),
        check="test -f docs/a.txt && test -f docs/b.txt",
        item=Item(
            "An archive that is not in gzip format in spite of its name is opened when tar looks for itself: "
            "`tar -xf data.tar.gz`, without a letter for the compression.",
            phrases=("not in gzip format",),
        ),
        needs=GZIP,
    ),
    Task(
        name="gzip-exists",
        kind="known",
        statement="Compress log.txt to log.txt.gz; the log.txt.gz that is there is of yesterday and may go.",
        setup="echo old > log.txt && gzip log.txt && echo new > log.txt\n",
        first="gzip log.txt",
        right="gzip -f log.txt",
        wrong=("gzip -c log.txt", "gunzip log.txt.gz", "mv log.txt log.new && gzip log.new"),
        check='test "$(gzip -dc log.txt.gz)" = new',
        item=Item(
            "gzip asks before it writes over a file and nobody answers: `gzip -f` when the old one may go.",
            phrases=("already exists", "not overwritten"),
            errors=("gzip: log.txt.gz already exists;\tnot overwritten",),
        ),
        needs=GZIP,
    ),
    Task(
        name="tar-dash-member",
        kind="known",
        statement="Pack the file -x.txt into one.tar.",
        setup="echo x > ./-x.txt\n",
        first="tar -cf one.tar -x.txt",
        right="tar -cf one.tar ./-x.txt",
        wrong=("tar -cf one.tar '-x.txt'", "tar -c -x.txt > one.tar", "tar -cf one.tar *x.txt"),
        check="tar -tf one.tar | grep -q -e '-x.txt'",
        item=Item(
            "A name that begins with a dash is read as options, in tar as such that contradict each other: "
            "write its path, "
            "`./-x.txt`.",
            phrases=("you may not specify more than one",),
        ),
        needs=TAR,
    ),
    Task(
        name="tar-none-missing-member",
        kind="none",
        statement="Take the newest report out of reports.tar and put it here as report.txt.",
        setup="mkdir r && echo 1 > r/2026-09.txt && echo 2 > r/2026-10.txt && tar -cf reports.tar r && rm -r r\n",
        first="tar -xOf reports.tar report.txt > report.txt",
        right="tar -xOf reports.tar r/2026-10.txt > report.txt",
        wrong=(
            "tar -xOf reports.tar 2026-10.txt > report.txt",
            "tar -xOf reports.tar r/2026-09.txt > report.txt",
            "tar -xOf reports.tar r/report.txt > report.txt",
        ),
        check='test "$(cat report.txt)" = 2',
        needs=TAR,
    ),
    Task(
        name="tar-wrong-truncated",
        kind="wrong",
        statement="part.tar is cut off at its end. Save what can be saved of it into the folder out, where the "
        "name list.txt "
        "says which files are whole.",
        setup="mkdir p out && head -c 20000 /dev/zero > p/a.bin && head -c 20000 /dev/zero > p/b.bin && "
        "tar -cf part.tar p && truncate -s 30000 part.tar && rm -r p\n",
        first="tar -xf part.tar -C out",
        right="(tar -xf part.tar -C out; rm -f out/p/b.bin; echo p/a.bin > out/list.txt)",
        wrong=(
            "tar -xf part.tar -C out --ignore-zeros",
            "tar -rf part.tar list.txt; tar -xf part.tar -C out",
            "tar -tf part.tar > out/list.txt",
        ),
        check='test "$(cat out/list.txt)" = p/a.bin && test -s out/p/a.bin && test ! -e out/p/b.bin',
        item=Item(
            "An unexpected end is mostly a block of zeros in the middle: read past it with `--ignore-zeros`.",
            phrases=("unexpected eof in archive",),
        ),
        needs=TAR,
    ),
)
