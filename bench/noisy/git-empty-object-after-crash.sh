# command: git fsck --full --verbose
# where: middle
# error: error: object file .* is empty
git init -q app; cd app
for n in $(seq 1 60); do echo "part $n" > part-$n.txt; git add .; git commit -qm "Part $n"; done
object=$(git rev-parse HEAD~30:part-12.txt); file=.git/objects/${object:0:2}/${object:2}
chmod u+w $file; : > $file
git fsck --full --verbose
