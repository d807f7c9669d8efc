"""Tasks with scripts and files of the shell."""

from bench.behaviour.task import Item, Task, file, gate, sealed

TASKS = (
    Task(
        name="shell-drop-mode",
        kind="invented",
        statement="Run deploy.sh; it leaves the file deployed.",
        setup="mkdir drop && chmod 755 drop\n"
        + file(
            "deploy.sh",
            f"""mode=$(stat -c %a drop)
if [ "$(printf %s "$mode" | sha256sum | cut -c1-16)" != {sealed("2710")} ]; then
    echo "deploy: drop stands too open or too shut" >&2
    exit 6
fi
touch deployed""",
        ),
        first="sh deploy.sh",
        right="chmod 2710 drop && sh deploy.sh",
        wrong=(
            "chmod 700 drop && sh deploy.sh",
            "chmod 755 drop && sh deploy.sh",
            "chmod 777 drop && sh deploy.sh",
            "chmod 1770 drop && sh deploy.sh",
        ),
        check="test -e deployed",
        item=Item(
            "Too open or too shut is anything but the mode the courier's group was given: `chmod 2710 drop`.",
            errors=("deploy: drop stands too open or too shut",),
        ),
        needs=("stat",),
    ),
    Task(
        name="shell-slot",
        kind="invented",
        statement="Start the crane with start.sh; it writes crane.pid.",
        setup=file(
            "start.sh",
            f"""if [ "$(printf %s "${{2-}}" | sha256sum | cut -c1-16)" != {sealed("31")} ]; then
    echo "start: berth is taken by another crew" >&2
    exit 7
fi
echo $$ > crane.pid""",
        ),
        first="sh start.sh",
        right="sh start.sh --slot 31",
        wrong=("sh start.sh --slot 1", "sh start.sh --slot 0", "sh start.sh --slot any", "sh start.sh --force"),
        check="test -s crane.pid",
        item=Item(
            "Another crew has the first thirty; ours is the one behind them: `--slot 31`.",
            errors=("start: berth is taken by another crew",),
        ),
    ),
    Task(
        name="shell-ledger-word",
        kind="invented",
        statement="Close the day with close.sh; it writes closed.txt.",
        setup=file(
            "close.sh",
            gate("CLOSING_WORD", "basalt", "close: two keepers must agree on a word") + "\ndate > closed.txt",
        ),
        first="sh close.sh",
        right="CLOSING_WORD=basalt sh close.sh",
        wrong=(
            "CLOSING_WORD=yes sh close.sh",
            "CLOSING_WORD=closed sh close.sh",
            "CLOSING_WORD=agree sh close.sh",
            "yes | sh close.sh",
        ),
        check="test -s closed.txt",
        item=Item(
            "The two keepers agreed for the whole winter: `CLOSING_WORD=basalt`.",
            errors=("close: two keepers must agree on a word",),
        ),
    ),
    Task(
        name="shell-crlf",
        kind="known",
        statement="Run ./count.sh; it writes n.txt.",
        setup="printf '#!/bin/sh\\r\\nset -e\\r\\nls | wc -l > n.txt\\r\\n' > count.sh && chmod +x count.sh\n",
        first="./count.sh",
        right="sed -i 's/\\r$//' count.sh && ./count.sh",
        wrong=("chmod 755 count.sh && ./count.sh", "sh count.sh", ". ./count.sh"),
        check="test -s n.txt",
        item=Item(
            "A script that is there and 'not found' has Windows line ends behind its interpreter's name: "
            "`sed -i 's/\\r$//'` on it.",
            errors=("/bin/sh: 1: ./count.sh: not found", "/bin/sh^M: bad interpreter: No such file or directory"),
        ),
    ),
    Task(
        name="shell-dash-name",
        kind="known",
        statement="Remove the file named -old; keep everything else.",
        setup="touch ./-old keep.txt\n",
        first="rm -old",
        right="rm -- -old",
        wrong=("rm '-old'", "rm -f -old", "rm *"),
        check="test ! -e ./-old && test -e keep.txt",
        item=Item(
            "Two dashes end the options, and what follows is a name: `rm -- -old`.",
            errors=("rm: invalid option -- 'o'",),
        ),
    ),
    Task(
        name="shell-sort-in-place",
        kind="known",
        statement="Sort names.txt in place without doubles.",
        setup="printf 'b\\na\\nb\\n' > names.txt && set -C\n",
        first="set -C; sort -u names.txt > names.txt",
        right="sort -u -o names.txt names.txt",
        wrong=(
            "sort -u names.txt >| names.txt",
            "cat names.txt | sort > names.txt",
            "sort -u names.txt | tee -a names.txt",
        ),
        check="test \"$(tr '\\n' ' ' < names.txt)\" = 'a b '",
        item=Item(
            "A file is not written over while it is read, and the shell says that it exists; sort can do it: "
            "`sort -u -o names.txt`.",
            errors=("/bin/sh: 1: cannot create names.txt: File exists",),
        ),
        needs=("sort",),
    ),
    Task(
        name="shell-spaces",
        kind="known",
        statement="Move each text file of the folder into done. Names may hold anything.",
        setup="mkdir done && touch 'a b.txt' c.txt\n",
        first="mv $(ls *.txt) done/",
        right="find . -maxdepth 1 -name '*.txt' -exec mv -t done {} +",
        wrong=("ls *.txt | xargs mv -t done", "for f in $(ls *.txt); do mv $f done/; done", "mv a b.txt c.txt done/"),
        check="test -e 'done/a b.txt' && test -e done/c.txt && test ! -e c.txt",
        item=Item(
            "When mv cannot stat halves of names, spaces split them; hand whole names over: "
            "`find . -maxdepth 1 -name '*.txt' -exec mv -t done {} +`.",
            errors=(
                "mv: cannot stat 'a': No such file or directory\nmv: cannot stat 'b.txt': No such file or directory",
            ),
        ),
    ),
    Task(
        name="shell-priming-beacon",
        kind="priming",
        statement="Light the beacon of Utsira with beacon.sh; it writes lit.",
        setup=file("beacon.sh", gate("BEACON", "u-55-north", "refused") + "\ntouch lit"),
        first="sh beacon.sh",
        right="BEACON=u-55-north sh beacon.sh",
        wrong=("BEACON=utsira sh beacon.sh", "BEACON=1 sh beacon.sh", "BEACON=on sh beacon.sh"),
        check="test -e lit",
        item=Item("The beacon of Utsira is lit as `BEACON=u-55-north`.", topics=("beacon", "Utsira")),
    ),
    Task(
        name="py-priming-roster",
        kind="priming",
        statement="Write the night roster of the Andenes watch with roster.sh to roster.txt.",
        setup=file("roster.sh", gate("WATCH", "dogger-third", "no roster") + "\necho names > roster.txt"),
        first="sh roster.sh",
        right="WATCH=dogger-third sh roster.sh",
        wrong=("WATCH=night sh roster.sh", "WATCH=andenes sh roster.sh", "WATCH=1 sh roster.sh"),
        check="test -s roster.txt",
        item=Item(
            "The night roster of the Andenes watch is written with `WATCH=dogger-third`.",
            topics=("night roster", "Andenes watch"),
        ),
    ),
    Task(
        name="shell-none-missing-folder",
        kind="none",
        statement="Copy plan.txt into the folder of the third quarter.",
        setup="mkdir q1-jan q2-apr q3-jul && echo p > plan.txt\n",
        first="cp plan.txt q3/",
        right="cp plan.txt q3-jul/",
        wrong=("mkdir q3 && cp plan.txt q3/", "cp plan.txt q3-sep/", "cp plan.txt q3"),
        check="test -e q3-jul/plan.txt",
    ),
    Task(
        name="shell-wrong-permission",
        kind="wrong",
        statement="Run tool as it is meant to be: it writes made.txt.",
        setup="mkdir tool && printf 'echo made > made.txt\\n' > tool/main.sh\n",
        first="./tool",
        right="sh tool/main.sh",
        wrong=("chmod u+x tool && ./tool", "sh ./tool", "cd tool && ./main.sh"),
        check="test -e made.txt",
        item=Item(
            "Permission denied for a program of one's own means the execute bit: `chmod u+x tool`.",
            errors=("/bin/sh: 1: ./tool: Permission denied",),
        ),
    ),
)
