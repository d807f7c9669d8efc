# command: psql -a -v ON_ERROR_STOP=1 -f import.sql
# where: end
# error: invalid byte sequence for encoding
. "$PARTS/postgres.sh"
. "$PARTS/sql_noise.sh"
start
printf '1,Andr\xe9\n' > people.csv
{ noise 1 30; echo "CREATE TABLE people (id int, name text);"; echo "\\copy people FROM 'people.csv' CSV"; } > import.sql
psql -a -v ON_ERROR_STOP=1 -f import.sql
