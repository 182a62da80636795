create table account (
    id bigint generated always as identity primary key,
    owner text not null unique,
    balance numeric(12, 2) not null default 0 check (balance >= 0)
);
