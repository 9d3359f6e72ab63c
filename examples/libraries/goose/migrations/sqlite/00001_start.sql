-- +goose Up
CREATE TABLE tasks (id integer PRIMARY KEY, title text NOT NULL, state text NOT NULL DEFAULT 'open');
INSERT INTO tasks (title) VALUES ('it''s the first; really'), ('second');

-- +goose Down
DROP TABLE tasks;
