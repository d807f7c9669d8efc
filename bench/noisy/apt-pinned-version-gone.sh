# command: ./provision.sh
# where: end
# error: E: Version .* was not found
printf 'set -x\napt-get -s install -y gdb cmake-doc\napt-get -s install -y texlive-latex-extra\napt-get -s install -y coreutils=7.4-2\n' > provision.sh
bash provision.sh
