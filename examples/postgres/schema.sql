create table customers (id int primary key, name text not null, tier text not null);
insert into customers values (1, 'Ada', 'gold'), (2, 'Grace', 'silver'), (3, 'Edsger', 'gold');

create table products (sku text primary key, title text not null, price numeric(8, 2) not null);
insert into products values ('LAMP-1', 'Desk lamp', 39.90), ('CHAIR-7', 'Chair', 129.00);
