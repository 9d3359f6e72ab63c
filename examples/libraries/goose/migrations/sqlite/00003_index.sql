-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE tasks ADD COLUMN due text;
UPDATE tasks SET due = '2026-01-01' WHERE state = 'open' OR id = 1;

-- +goose Down
ALTER TABLE tasks DROP COLUMN due;
