chmod 755 .. .; mkdir pg; chown postgres pg
as() { runuser -u postgres -- "$@"; }
B=/usr/lib/postgresql/15/bin
as $B/initdb -D pg/data -A trust -E UTF8 > /dev/null
start() { as $B/pg_ctl -D pg/data -o "-k $PWD/pg -c listen_addresses='' $*" -l pg/log -w start > /dev/null; }
trap 'as $B/pg_ctl -D pg/data -m immediate stop > /dev/null' EXIT
export PGHOST=$PWD/pg PGUSER=postgres PGDATABASE=postgres
