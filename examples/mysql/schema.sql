create table customers (id int primary key, name varchar(100) not null, tier varchar(20) not null);
insert into customers values (1, 'Ada', 'gold'), (2, 'Grace', 'silver'), (3, 'Edsger', 'gold');

create table products (sku varchar(20) primary key, title varchar(100) not null, price decimal(8, 2) not null);
insert into products values ('LAMP-1', 'Desk lamp', 39.90), ('CHAIR-7', 'Chair', 129.00);
