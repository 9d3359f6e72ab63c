-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE tasks ADD COLUMN due date;
UPDATE tasks SET due = date '2026-01-01' WHERE state = 'open' OR id = 1;

-- +goose Down
ALTER TABLE tasks DROP COLUMN due;
