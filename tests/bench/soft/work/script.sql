-- SPDX-License-Identifier: MIT
-- Workload: fill, index, count, join, group, search.
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, kind INT, price INT);
WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 150000)
INSERT INTO item SELECT i, printf('%x-%d', i * 40503 % 65521, i % 89), i * i % 883, i * 31 % 1009 FROM n;
CREATE INDEX item_kind ON item(kind);
SELECT count(*), sum(price) FROM item WHERE kind BETWEEN 200 AND 400;
SELECT count(*), max(b.price) FROM item a JOIN item b ON b.kind = a.kind WHERE a.id < 300;
SELECT kind, count(*) AS n, sum(length(name)) FROM item GROUP BY kind ORDER BY n DESC, kind LIMIT 4;
SELECT name FROM item WHERE name LIKE '%a7%-1%' ORDER BY name, id LIMIT 5;
