create table {table} (net cidr primary key, owner text not null, zone text);
create index on {table} using gist (net inet_ops);
