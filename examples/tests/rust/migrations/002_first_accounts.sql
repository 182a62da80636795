insert into account (owner, balance) values ('Ada', 100), ('Grace', 20);
