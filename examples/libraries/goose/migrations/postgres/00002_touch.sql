-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tasks SET state = 'touched' WHERE id = NEW.id; -- a write in a body
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER touch AFTER INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION touch();
INSERT INTO tasks (title) SELECT title || '!' FROM tasks;
-- +goose StatementBegin
DO $$ BEGIN UPDATE tasks SET title = upper(title); END $$;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER touch ON tasks;
DROP FUNCTION touch;
DELETE FROM tasks WHERE title LIKE '%!';
