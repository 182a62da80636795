INSERT INTO {table} (login, name, department) VALUES (?1, ?2, ?3);
