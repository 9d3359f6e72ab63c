ALTER TABLE tickets ADD COLUMN price integer; UPDATE tickets SET price = 10 WHERE seat LIKE '1%' OR state = 'sold';
