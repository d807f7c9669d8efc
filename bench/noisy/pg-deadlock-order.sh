# command: docker compose logs db
# where: middle
# error: ERROR: +deadlock detected
. "$PARTS/postgres.sh"
start "-c log_statement=all -c deadlock_timeout=200ms"
psql -qc "CREATE TABLE stock (id int PRIMARY KEY, n int); INSERT INTO stock SELECT g, 10 FROM generate_series(1, 99) AS g"
more() { for n in $(seq 1 25); do psql -qAtc "SELECT n FROM stock WHERE id = $n; UPDATE stock SET n = n + 1 WHERE id = $n + 20" > /dev/null; done; }
more
psql -qc "BEGIN" -c "UPDATE stock SET n = 1 WHERE id = 1" -c "SELECT pg_sleep(0.5)" -c "UPDATE stock SET n = 2 WHERE id = 2" -c "COMMIT" > /dev/null 2>&1 &
one=$!
psql -qc "BEGIN" -c "UPDATE stock SET n = 2 WHERE id = 2" -c "SELECT pg_sleep(0.5)" -c "UPDATE stock SET n = 1 WHERE id = 1" -c "COMMIT" > /dev/null 2>&1
wait $one; more; cat pg/log
