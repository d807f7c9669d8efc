# command: psql -a -f load.sql
# where: start
# error: duplicate key value violates unique
. "$PARTS/postgres.sh"
. "$PARTS/sql_noise.sh"
start
{ noise 1 30
  echo "CREATE TABLE customer (id bigserial PRIMARY KEY, name text);"
  echo "INSERT INTO customer (id, name) SELECT g, 'c' || g FROM generate_series(1, 50) AS g;"
  echo "INSERT INTO customer (name) VALUES ('fifty-one');"
  noise 31 60; } > load.sql
psql -a -f load.sql
