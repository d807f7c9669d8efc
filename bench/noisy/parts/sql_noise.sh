noise() {
for n in $(seq $1 $2); do
  echo "CREATE TABLE part_$n (id bigint PRIMARY KEY, made timestamptz NOT NULL DEFAULT now(), title text NOT NULL);"
  echo "INSERT INTO part_$n (id, title) SELECT g, 'row ' || g FROM generate_series(1, $((n * 7))) AS g;"
  echo "CREATE INDEX part_${n}_made ON part_$n (made);"
done; }
