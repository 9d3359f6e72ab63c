CREATE TABLE tickets (id bigint AUTO_INCREMENT PRIMARY KEY, seat varchar(20) NOT NULL UNIQUE, state varchar(10) NOT NULL DEFAULT 'free');
INSERT INTO tickets (seat) VALUES ('1a'), ('1b'), ('it''s; 2a');
CREATE VIEW sold AS SELECT count(*) AS n FROM tickets WHERE state = 'sold';
