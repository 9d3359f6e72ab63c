-- +goose Up
-- +goose StatementBegin
CREATE TRIGGER touch AFTER INSERT ON tasks BEGIN
    UPDATE tasks SET state = 'touched' WHERE id = NEW.id; -- a write in a body
END;
-- +goose StatementEnd
INSERT INTO tasks (title) SELECT title || '!' FROM tasks;
UPDATE tasks SET title = upper(title);

-- +goose Down
DROP TRIGGER touch;
DELETE FROM tasks WHERE title LIKE '%!';
