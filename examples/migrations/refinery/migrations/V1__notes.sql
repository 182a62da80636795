create table notes (body text not null);
