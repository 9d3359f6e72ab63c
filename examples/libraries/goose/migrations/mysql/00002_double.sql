-- +goose Up
INSERT INTO tasks (title) SELECT CONCAT(title, '!') FROM tasks;
UPDATE tasks SET title = UPPER(title);

-- +goose Down
DELETE FROM tasks WHERE title LIKE '%!';
