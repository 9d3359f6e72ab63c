-- +goose NO TRANSACTION
-- +goose Up
UPDATE tasks SET due = date '2026-01-01' WHERE state = 'open' OR id = 1;

-- +goose Down
UPDATE tasks SET due = NULL;
