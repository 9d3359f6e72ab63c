CREATE TABLE tickets (id integer PRIMARY KEY, seat text NOT NULL UNIQUE, state text NOT NULL DEFAULT 'free');
INSERT INTO tickets (seat) VALUES ('1a'), ('1b'), ('it''s; 2a');
CREATE VIEW sold AS SELECT count(*) AS n FROM tickets WHERE state = 'sold';
