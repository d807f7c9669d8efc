# command: sqlite3 -echo shop.db < seed.sql
# where: start
# error: FOREIGN KEY constraint failed
{ echo "PRAGMA foreign_keys = ON;"
  echo "CREATE TABLE author (id INTEGER PRIMARY KEY, name TEXT NOT NULL);"
  echo "CREATE TABLE book (id INTEGER PRIMARY KEY, author_id INTEGER NOT NULL REFERENCES author (id), title TEXT);"
  for n in $(seq 1 50); do echo "INSERT INTO author (id, name) VALUES ($n, 'author number $n of the catalogue');"; done
  echo "INSERT INTO book (author_id, title) VALUES (950, 'Lost');"
  for n in $(seq 1 60); do echo "INSERT INTO book (author_id, title) VALUES ($((n % 50 + 1)), 'title $n');"; done; } > seed.sql
sqlite3 -echo shop.db < seed.sql
