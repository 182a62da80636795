-- The tables of HttpArena's workloads, with rows of its sizes drawn by a fixed rule.
create table items (
    id integer primary key, name text not null, category text not null, price integer not null,
    quantity integer not null, active boolean not null, tags jsonb not null,
    rating_score integer not null, rating_count integer not null
);
insert into items
select id, 'Item ' || id,
    (array['electronics', 'office', 'kitchen', 'garden', 'sports', 'toys', 'books', 'music', 'beauty',
        'automotive'])[1 + id % 10],
    1 + id * 7919::bigint % 500, 1 + id * 104729::bigint % 1000, id % 3 > 0,
    (array['["new"]', '["fast", "popular"]', '["sale", "eco", "light"]',
        '["premium", "new", "sale", "compact"]'])[1 + id % 4]::jsonb,
    1 + id * 31 % 50, 1 + id * 17 % 500
from generate_series(1, 100000) as id;
create table fortune (id integer primary key, message text not null);
insert into fortune
select id, case
    when id = 11 then '<script>alert("This should not be displayed in a browser alert box.");</script>'
    when id = 12 then 'フレームワークのベンチマーク'
    when id < 11 then 'A short saying, of which there are ten: this one is number ' || id
    else 'Rock & roll won''t wait — "never" say so of saying number ' || id
    end
from generate_series(1, 200) as id;
vacuum analyze;
