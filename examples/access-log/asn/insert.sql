INSERT INTO {table} (first_ip, last_ip, asn, org) VALUES (ip4_int(?1), ip4_int(?2), ?3, ?4);
