# command: tail -n 80 postgresql.log
# where: middle
# error: FATAL: +(sorry, too many clients|remaining connection)
. "$PARTS/postgres.sh"
start "-c max_connections=8 -c superuser_reserved_connections=1 -c log_connections=on -c log_disconnections=on"
psql -qc "CREATE ROLE web LOGIN"
for n in $(seq 1 10); do psql -qAtc "SELECT 1" > /dev/null; done
for n in $(seq 1 7); do PGUSER=web psql -qAtc "SELECT pg_sleep(2)" > /dev/null & sleep 0.1; done
PGUSER=web psql -qAtc "SELECT 1" > /dev/null 2>&1; wait $(jobs -p) 2> /dev/null
for n in $(seq 1 10); do psql -qAtc "SELECT 1" > /dev/null; done
cat pg/log
