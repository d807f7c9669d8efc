# command: GIT_TRACE=1 git submodule update --init
# where: end
# error: transport 'file' not allowed
git init -q lib; git -C lib commit -q --allow-empty -m one
git init -q app; cd app
for n in $(seq 1 8); do git -c protocol.file.allow=always submodule --quiet add ../lib vendor/lib$n; done
git commit -qm modules; cd ..
git -c protocol.file.allow=always clone -q app copy; cd copy
export GIT_TRACE=1
git submodule status; git submodule init
git submodule update
