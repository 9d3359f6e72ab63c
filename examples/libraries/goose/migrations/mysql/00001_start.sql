-- +goose Up
CREATE TABLE tasks (id bigint AUTO_INCREMENT PRIMARY KEY, title varchar(100) NOT NULL, state varchar(20) NOT NULL DEFAULT 'open', due date);
INSERT INTO tasks (title) VALUES ('it''s the first; really'), ('second');
-- +goose StatementBegin
CREATE TRIGGER touch BEFORE INSERT ON tasks FOR EACH ROW BEGIN
    SET NEW.state = 'touched'; -- in a body
END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE tasks;
