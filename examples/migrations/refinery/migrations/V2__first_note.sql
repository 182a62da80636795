insert into notes values ('hello');
