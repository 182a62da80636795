CREATE TABLE IF NOT EXISTS {table} (
  first_ip INTEGER NOT NULL,
  last_ip  INTEGER NOT NULL,
  asn      INTEGER NOT NULL,
  org      TEXT NOT NULL
);
