# command: GIT_TRACE=1 git am patches/*.patch
# where: start
# error: patch does not apply
git init -q app; cd app; seq 1 40 > list.txt; git add .; git commit -qm start
for n in $(seq 1 40); do sed -i "${n}s/\$/ changed/" list.txt; git commit -qam "Line $n is changed, as the plan of step $n says"; done
git format-patch -q -o ../patches HEAD~40
git checkout -q -b other HEAD~40; sed -i '30s/.*/thirty/' list.txt; git commit -qam thirty
GIT_TRACE=1 git am ../patches/*.patch
GIT_TRACE=1 git am --abort
git log --oneline --all | head -60
