# command: psql -a -1 -f migrate.sql
# where: end
# error: cannot run inside a transaction block
. "$PARTS/postgres.sh"
. "$PARTS/sql_noise.sh"
start
{ noise 1 30; echo "CREATE INDEX CONCURRENTLY part_3_title ON part_3 (title);"; } > migrate.sql
psql -a -1 -v ON_ERROR_STOP=1 -f migrate.sql
