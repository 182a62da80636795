CREATE TABLE IF NOT EXISTS {table} (
  login      TEXT PRIMARY KEY,
  name       TEXT NOT NULL,
  department TEXT NOT NULL
);
