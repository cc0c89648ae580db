-- A small shop. `make demo` plans and applies it; declare your own schema the same way.

CREATE TYPE order_state AS ENUM ('cart', 'paid', 'shipped', 'cancelled');

CREATE DOMAIN email AS text CHECK (VALUE ~ '^[^@]+@[^@]+$');

CREATE TABLE customer (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email       email NOT NULL UNIQUE,
    name        text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE product (
    sku          text PRIMARY KEY,
    title        text NOT NULL,
    price_cents  integer NOT NULL CHECK (price_cents >= 0)
);

CREATE TABLE purchase (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer_id  bigint NOT NULL REFERENCES customer (id),
    state        order_state NOT NULL DEFAULT 'cart',
    placed_at    timestamptz
);

CREATE TABLE purchase_line (
    purchase_id  bigint NOT NULL REFERENCES purchase (id) ON DELETE CASCADE,
    sku          text NOT NULL REFERENCES product (sku),
    quantity     integer NOT NULL CHECK (quantity > 0),
    PRIMARY KEY (purchase_id, sku)
);

CREATE INDEX purchase_open ON purchase (customer_id) WHERE state = 'cart';

CREATE VIEW revenue AS
SELECT date_trunc('day', p.placed_at) AS day, sum(l.quantity * r.price_cents) AS cents
FROM purchase p
JOIN purchase_line l ON l.purchase_id = p.id
JOIN product r USING (sku)
WHERE p.state IN ('paid', 'shipped')
GROUP BY 1;

COMMENT ON VIEW revenue IS 'What was paid, by day';
