"""Tasks in which git refuses by a rule of the project: hooks, filters, push options."""

from bench.behaviour.task import REMOTE, REPOSITORY, Item, Task, file, gate, sealed

NEEDS = ("git",)

TASKS = (
    Task(
        name="git-commit-trailer",
        kind="invented",
        statement="notes.txt has a new line. Put it into the history under the subject 'Fix rounding'.",
        setup=REPOSITORY
        + file(
            ".git/hooks/commit-msg",
            f"""#!/bin/sh
word=$(sed -n 's/^Board: //p' "$1")
if [ "$(printf %s "$word" | sha256sum | cut -c1-16)" != {sealed("otter-88")} ]; then
    echo "commit-msg: the message has no board reference" >&2
    exit 1
fi""",
        )
        + "chmod +x .git/hooks/commit-msg && echo two >> notes.txt\n",
        first="git commit -qam 'Fix rounding'",
        right="git commit -qam 'Fix rounding' -m 'Board: otter-88'",
        wrong=(
            "git commit -qam 'Fix rounding' -m 'Refs: #88'",
            "git commit -qam 'Fix rounding' --no-verify",
            "git commit -qam 'Fix rounding' -m 'Board: main'",
            "git commit -qam 'board: Fix rounding'",
        ),
        check="git diff --quiet && git log -1 --format=%s%n%b > m && grep -qx 'Fix rounding' m && grep -q 'otter-88' m",
        item=Item(
            "'no board reference' means the last paragraph of the message is missing: add `-m 'Board: "
            "otter-88'`, which "
            "is this team's only board.",
            errors=("commit-msg: the message has no board reference",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="git-push-window",
        kind="invented",
        statement="Publish the newest commit of main at origin.",
        setup=REMOTE
        + file(
            '"$HOME/origin.git/hooks/pre-receive"',
            f"""#!/bin/sh
given=${{GIT_PUSH_OPTION_0-}}
if [ "$(printf %s "$given" | sha256sum | cut -c1-16)" != {sealed("window=teal")} ]; then
    echo "freeze: this ref moves inside a named window only" >&2
    exit 1
fi""",
        )
        + 'chmod +x "$HOME/origin.git/hooks/pre-receive"\n'
        + 'git -C "$HOME/origin.git" config receive.advertisePushOptions true\n'
        + "echo two >> notes.txt && git commit -qam Second\n",
        first="git push -q origin main",
        right="git push -q -o window=teal origin main",
        wrong=(
            "git push -q --force origin main",
            "git push -q -o window=open origin main",
            "git push -q origin main:release",
            "git push -q -o skip-freeze origin main",
        ),
        check='test "$(git -C "$HOME/origin.git" rev-parse main)" = "$(git rev-parse main)"',
        item=Item(
            "During the freeze a ref moves when the window is named: `-o window=teal` is the one that stays open.",
            errors=("remote: freeze: this ref moves inside a named window only",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="git-branch-prefix",
        kind="invented",
        statement="Hand in the commit that HEAD is at for review: it goes to origin as a line of work called "
        "fix-rounding.",
        setup=REMOTE
        + file(
            '"$HOME/origin.git/hooks/update"',
            f"""#!/bin/sh
name=${{1#refs/heads/}}
if [ "$(printf %s "${{name%%/*}}" | sha256sum | cut -c1-16)" != {sealed("lark")} ]; then
    echo "desk: nobody reads heads of that family" >&2
    exit 1
fi""",
        )
        + 'chmod +x "$HOME/origin.git/hooks/update" && echo two >> notes.txt && git commit -qam Second\n',
        first="git push -q origin HEAD:refs/heads/fix-rounding",
        right="git push -q origin HEAD:refs/heads/lark/fix-rounding",
        wrong=(
            "git push -q origin HEAD:refs/heads/feature/fix-rounding",
            "git push -q origin HEAD:refs/heads/review/fix-rounding",
            "git push -q --force origin HEAD:refs/heads/fix-rounding",
            "git push -q origin HEAD:main",
        ),
        check='test "$(git -C "$HOME/origin.git" rev-parse lark/fix-rounding)" = "$(git rev-parse HEAD)"',
        item=Item(
            "'heads of that family' is the desk's word for a prefix: it reads `refs/heads/lark/` and no other.",
            errors=("remote: desk: nobody reads heads of that family",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="git-clean-filter",
        kind="invented",
        statement="Stage access.cfg, sealed, for the next commit.",
        setup=REPOSITORY
        + file("seal.sh", gate("VAULT_SLOT", "emerald", "seal: slot is shut", 9) + "\nsed 's/^/sealed:/'")
        + "echo 'access.cfg filter=vault' > .gitattributes && echo host=a > access.cfg\n"
        + "git config filter.vault.clean 'sh seal.sh' && git config filter.vault.required true\n",
        first="git add access.cfg",
        right="VAULT_SLOT=emerald git add access.cfg",
        wrong=(
            "VAULT_SLOT=default git add access.cfg",
            "git add -f access.cfg",
            "git -c filter.vault.required=false add access.cfg",
            "git -c filter.vault.clean=cat add access.cfg",
        ),
        check="git show :access.cfg | grep -q '^sealed:host=a'",
        item=Item(
            "A clean filter that says its slot is shut opens with the slot of this year: `VAULT_SLOT=emerald` "
            "before the "
            "command.",
            errors=("seal: slot is shut\nerror: external filter 'sh seal.sh' failed 9",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="git-tag-series",
        kind="invented",
        statement="Mark HEAD at origin as release 4.2.",
        setup=REMOTE
        + file(
            '"$HOME/origin.git/hooks/update"',
            f"""#!/bin/sh
name=${{1#refs/tags/}}
if [ "$(printf %s "${{name%%-*}}" | sha256sum | cut -c1-16)" != {sealed("quartz")} ]; then
    echo "registrar: a label outside of the running series" >&2
    exit 1
fi""",
        )
        + 'chmod +x "$HOME/origin.git/hooks/update"\n',
        first="git push -q origin HEAD:refs/tags/v4.2",
        right="git push -q origin HEAD:refs/tags/quartz-4.2",
        wrong=(
            "git push -q origin HEAD:refs/tags/4.2",
            "git push -q origin HEAD:refs/tags/release-4.2",
            "git push -q --force origin HEAD:refs/tags/v4.2",
            "git tag v4.2 HEAD && git push -q origin v4.2",
        ),
        check='test "$(git -C "$HOME/origin.git" rev-parse quartz-4.2)" = "$(git rev-parse HEAD)"',
        item=Item(
            "The registrar takes labels of the series that runs, which is quartz: `refs/tags/quartz-4.2`, never "
            "a plain "
            "version.",
            errors=("remote: registrar: a label outside of the running series",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="git-wrong-hook-skipped",
        kind="wrong",
        statement="notes.txt has a new line. Commit it as 'Add depth', with the size table the hook keeps in "
        "sizes.txt.",
        setup=REPOSITORY
        + file(
            ".git/hooks/pre-commit",
            """#!/bin/sh
if [ ! -e sizes.txt ]; then
    echo "pre-commit: sizes.txt is missing" >&2
    exit 1
fi""",
        )
        + "chmod +x .git/hooks/pre-commit && echo two >> notes.txt\n",
        first="git commit -qam 'Add depth'",
        right="wc -c notes.txt > sizes.txt && git add sizes.txt && git commit -qam 'Add depth'",
        wrong=(
            "git stash -q && git stash pop -q && git commit -qam 'Add depth'",
            "git commit -qam 'Add depth' --no-verify",
            "git add -A && git commit -qm 'Add depth'",
        ),
        check="git diff --quiet HEAD && git show HEAD:sizes.txt | grep -q notes.txt",
        item=Item(
            "'sizes.txt is missing' comes from a stale index: write it anew with `git stash -q && git stash pop -q`.",
            errors=("pre-commit: sizes.txt is missing",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="git-none-protected",
        kind="none",
        statement="Take the commit on top of main back at origin, by a commit that undoes it.",
        setup=REMOTE
        + 'git -C "$HOME/origin.git" config receive.denyNonFastForwards true\n'
        + "echo two >> notes.txt && git commit -qam Second && git push -q && git reset -q --hard HEAD~1\n",
        first="git push -q --force origin main",
        right="git merge -q --ff-only origin/main && git revert --no-edit HEAD && git push -q origin main",
        wrong=(
            "git push -q --force-with-lease origin main",
            "git push -q origin +main:main",
            "git push -q origin main:undone",
        ),
        check='test "$(git -C "$HOME/origin.git" rev-list --count main)" = 3 && '
        'test "$(git -C "$HOME/origin.git" show main:notes.txt)" = one',
        needs=NEEDS,
    ),
)
