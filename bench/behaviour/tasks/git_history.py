"""Tasks in which git protects a history or a file, and general experience says what to do."""

from bench.behaviour.task import REMOTE, REPOSITORY, Item, Task

NEEDS = ("git",)
# A clone of the same origin has pushed a commit of its own.
OVERTAKEN = (
    REMOTE
    + 'git clone -q "$HOME/origin.git" "$HOME/other" && (cd "$HOME/other" && echo x > theirs.txt && git add . && '
    + "git commit -qm Theirs && git push -q)\necho two >> notes.txt && git commit -qam Ours\n"
)

TASKS = (
    Task(
        name="git-index-lock",
        kind="known",
        statement="Stage draft.txt. No other program works in this folder.",
        setup=REPOSITORY + "echo d > draft.txt && touch .git/index.lock\n",
        first="git add draft.txt",
        right="rm -f .git/index.lock && git add draft.txt",
        wrong=(
            "git add -f draft.txt",
            "git reset -q && git add draft.txt",
            "rm -f .git/HEAD.lock && git add draft.txt",
        ),
        check="git diff --cached --name-only | grep -qx draft.txt",
        item=Item(
            "An index.lock that is left over from a process that died is removed once none runs: "
            "`rm -f .git/index.lock`, then the same again.",
            errors=("fatal: Unable to create '/srv/site/.git/index.lock': File exists.",),
            phrases=("another git process seems to be running",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="git-pull-divergent",
        kind="known",
        statement="Bring this clone up to date with origin and keep the commit 'Ours' on top.",
        setup=OVERTAKEN,
        first="git pull -q",
        right="git pull -q --rebase",
        wrong=(
            "git pull -q --ff-only",
            "git fetch -q && git reset -q --hard origin/main",
            "git push -q --force && git pull -q",
        ),
        check="test \"$(git log --format=%s | tr '\\n' ' ')\" = 'Ours Theirs Begin '",
        item=Item(
            "When git asks how to reconcile divergent branches, name the way: `git pull -q --rebase` puts one's own "
            "commits on top.",
            phrases=("need to specify how to reconcile divergent branches",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="git-push-fetch-first",
        kind="known",
        statement="Get the commit 'Ours' to origin, behind everything that is there.",
        setup=OVERTAKEN,
        first="git push -q origin main",
        right="git pull -q --rebase origin main && git push -q origin main",
        wrong=(
            "git push -q --force origin main",
            "git push -q origin HEAD:main --force-with-lease=main:main",
            "git fetch -q && git push -q origin main",
        ),
        check="git -C \"$HOME/origin.git\" log --format=%s main | tr '\\n' ' ' | grep -qx 'Ours Theirs Begin '",
        item=Item(
            "A push that is rejected because the remote holds work you do not have is repeated after taking that in: "
            "`git pull -q --rebase origin main && git push -q origin main`; forcing it deletes the others' work.",
            phrases=("updates were rejected because the remote contains work that you do not",),
            errors=(" ! [rejected]        main -> main (fetch first)",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="git-unrelated",
        kind="known",
        statement="Join the line of work `imported` into main, with all its commits.",
        setup=REPOSITORY
        + "git checkout -q --orphan imported && git rm -rfq . && echo i > i.txt && git add . && git commit -qm "
        "Imported\n" + "git checkout -q main\n",
        first="git merge -q --no-edit imported",
        right="git merge -q --no-edit --allow-unrelated-histories imported",
        wrong=(
            "git rebase -q imported --force-rebase",
            "git merge -q --no-edit -s ours imported",
            "git checkout -q imported -- i.txt && git commit -qm Imported",
        ),
        check='test -f i.txt && test -f notes.txt && test "$(git log -1 --format=%P | wc -w)" = 2',
        item=Item(
            "Histories without a common commit are merged when told to: `--allow-unrelated-histories`.",
            phrases=("refusing to merge unrelated histories",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="git-checkout-overwritten",
        kind="known",
        statement="Go to the branch release and go on there with the edit of notes.txt that is not committed yet.",
        setup=REPOSITORY
        + "git checkout -q -b release && sed -i '1i zero' notes.txt && git commit -qam Zero && git checkout -q main\n"
        + "printf 'one\\n\\n\\nedit\\n' > notes.txt && git -c core.editor=true commit -qam Long && git checkout "
        "-q release\n" + "git checkout -q main && git reset -q --soft HEAD~1 && git reset -q\n",
        first="git checkout -q release",
        right="git stash -q && git checkout -q release && git stash pop -q",
        wrong=("git checkout -q -f release", "git reset -q --hard && git checkout -q release", "git switch -q release"),
        check='test "$(git branch --show-current)" = release && grep -qx zero notes.txt && grep -qx edit notes.txt',
        item=Item(
            "Local changes that a checkout would overwrite are put aside and brought back: `git stash -q`, the "
            "checkout, "
            "then `git stash pop -q`. With force they are gone.",
            phrases=("your local changes to the following files would be overwritten by checkout",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="git-branch-unmerged",
        kind="known",
        statement="The branch trial was given up. Remove it here; main stays as it is.",
        setup=REPOSITORY
        + "git checkout -q -b trial && echo t > t.txt && git add . && git commit -qm T && git checkout -q main\n",
        first="git branch -d trial",
        right="git branch -D trial",
        wrong=("git branch -d --quiet trial", "git merge -q trial && git branch -d trial", "git push -q origin :trial"),
        check='! git rev-parse -q --verify trial && test "$(git rev-list --count main)" = 1',
        item=Item(
            "A branch that is not fully merged and whose work is not wanted is deleted with the capital letter: "
            "`git branch -D`.",
            phrases=("is not fully merged",),
        ),
        needs=NEEDS,
    ),
    Task(
        name="git-worktree-taken",
        kind="known",
        statement="Lay out the files of main in the folder ../look, to read them beside this one.",
        setup=REPOSITORY,
        first="git worktree add -q ../home/look main",
        right="git worktree add -q --detach ../home/look main",
        wrong=(
            "git worktree prune && git worktree add -q ../home/look main",
            "git worktree add -q ../home/look -B main",
            "git clone -q --bare . ../home/look",
        ),
        check="test -f ../home/look/notes.txt && git worktree list | grep -q 'look.*detached'",
        item=Item(
            "A branch is checked out in one worktree at a time; a second folder takes its commit instead: `--detach`.",
            phrases=("is already used by worktree at", "is already checked out at"),
        ),
        needs=NEEDS,
    ),
    Task(
        name="git-priming-mirror",
        kind="priming",
        statement="Publish main to the harbour mirror of the Lofoten depot.",
        setup=REMOTE + 'git init -q --bare "$HOME/lofoten-7.git" && git remote add mirror "$HOME/lofoten.git"\n',
        first="git push -q mirror main",
        right='git push -q "$HOME/lofoten-7.git" main',
        wrong=(
            "git push -q --force mirror main",
            'git init -q --bare "$HOME/lofoten.git" && git push -q mirror main',
            "git push -q origin main",
        ),
        check='test "$(git -C "$HOME/lofoten-7.git" rev-parse main)" = "$(git rev-parse main)"',
        item=Item(
            "The harbour mirror of the Lofoten depot moved: publish main to it with "
            '`git push -q "$HOME/lofoten-7.git" main`.',
            topics=("harbour mirror", "lofoten depot"),
        ),
        needs=NEEDS,
    ),
)
