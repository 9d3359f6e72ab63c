-- name: OpenAccount :one
INSERT INTO accounts (name) VALUES ($1) RETURNING *;

-- name: ImportAccounts :many
INSERT INTO accounts (name, plan) SELECT unnest(@names::text[]), unnest(@plans::text[]) RETURNING id;

-- name: KnowAccount :execrows
INSERT INTO accounts (name) VALUES ($1) ON CONFLICT DO NOTHING;

-- name: ChangePlan :exec
UPDATE accounts SET plan = $2 WHERE name = $1;

-- name: Charge :execrows
UPDATE accounts SET cents = cents - sqlc.arg(cents) WHERE plan = sqlc.arg(plan) OR 'vip' = ANY (tags);

-- name: Bill :execresult
INSERT INTO invoices (account_id, month, cents)
SELECT id, sqlc.arg(month), -cents FROM accounts WHERE cents < 0 AND closed_at IS NULL
ON CONFLICT (account_id, month) DO UPDATE SET cents = invoices.cents + excluded.cents, state = 'again';

-- name: Pay :one
WITH paid AS (
    UPDATE invoices SET state = 'paid' FROM accounts
    WHERE accounts.id = invoices.account_id AND accounts.name = $1 AND invoices.state <> 'paid'
    RETURNING invoices.account_id, invoices.cents
), credited AS (
    UPDATE accounts SET cents = accounts.cents + paid.cents FROM paid WHERE accounts.id = paid.account_id
    RETURNING 1
)
SELECT count(*) FROM credited;

-- name: Annotate :one
UPDATE invoices SET note = $2 WHERE account_id = (SELECT id FROM accounts WHERE name = $1) RETURNING *;

-- name: CloseAccounts :execrows
UPDATE accounts SET closed_at = now() WHERE name = ANY (@names::text[]);

-- name: DropInvoices :many
DELETE FROM invoices USING accounts WHERE accounts.id = invoices.account_id AND accounts.closed_at IS NOT NULL RETURNING invoices.account_id, invoices.cents;

-- name: DropAccounts :execrows
DELETE FROM accounts WHERE closed_at IS NOT NULL;

-- name: Balances :many
SELECT name, plan, cents FROM accounts ORDER BY name;
