# command: ./release.sh
# where: end
# error: Unable to create .*index.lock
git init -q app; cd app; git commit -q --allow-empty -m start
printf 'set -x\nfor n in 1 2 3 4 5 6; do\n  echo $n > part-$n.txt\n  git add part-$n.txt\n  git commit -q -m "Part $n"\n  [ $n = 5 ] && touch .git/index.lock\ndone\n' > ../release.sh
GIT_TRACE=1 GIT_TRACE_SETUP=1 bash ../release.sh
