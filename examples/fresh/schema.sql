create table stock (sku text primary key, count int not null);
insert into stock values ('LAMP-1', 0), ('CHAIR-7', 12);

-- The tables whose changes the server sends.
create publication lookaside for table stock;
