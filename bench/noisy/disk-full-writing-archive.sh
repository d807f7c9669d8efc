# command: tar -cvf /mnt/backup/site.tar site
# where: end
# error: No space left on device
mkdir -p site/pages
for n in $(seq 1 160); do head -c 60 /dev/zero > site/pages/article-of-the-week-number-$n-with-pictures.html; done
tar --record-size=200K --sort=name -cvf /dev/full site
