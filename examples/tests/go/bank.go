// Package bank keeps accounts and transfers between them.
package bank

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Balance is what an account holds.
func Balance(ctx context.Context, db *pgx.Conn, owner string) (balance int, err error) {
	err = db.QueryRow(ctx, "select balance::int from account where owner = $1", owner).Scan(&balance)
	return balance, err
}

// Transfer moves an amount from one account to another, or nothing.
func Transfer(ctx context.Context, db *pgx.Conn, source, target string, amount int) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		sql := "update account set balance = balance + $1 where owner = $2"
		if _, err := tx.Exec(ctx, sql, -amount, source); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sql, amount, target)
		return err
	})
}
