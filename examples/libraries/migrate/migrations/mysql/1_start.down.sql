DROP VIEW sold; DROP TABLE tickets;
