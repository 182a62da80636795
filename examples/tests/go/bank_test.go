package bank

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"

	"example.com/bank/testdb"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func expectBalance(t *testing.T, db *pgx.Conn, owner string, expected int) {
	t.Helper()
	balance, err := Balance(t.Context(), db, owner)
	if err != nil || balance != expected {
		t.Fatalf("%s has %d (%v), not %d", owner, balance, err, expected)
	}
}

func TestATransferMovesMoney(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	if err := Transfer(t.Context(), db, "Ada", "Grace", 12); err != nil {
		t.Fatal(err)
	}
	expectBalance(t, db, "Ada", 88)
	expectBalance(t, db, "Grace", 32)
}

func TestNobodyGivesMoreThanTheyHave(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	err := Transfer(t.Context(), db, "Grace", "Ada", 21)
	// 23514: check_violation.
	if refusal := (*pgconn.PgError)(nil); !errors.As(err, &refusal) || refusal.Code != "23514" {
		t.Fatal(err)
	}
	expectBalance(t, db, "Ada", 100)
}

func TestEveryTestBeginsWithWhatTheMigrationsMade(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	expectBalance(t, db, "Ada", 100)
	expectBalance(t, db, "Grace", 20)
	if _, err := db.Exec(t.Context(), "drop table account"); err != nil {
		t.Fatal(err)
	}
}

// Small tests to measure with: MANY=1000 lookaside pg run --migrations migrations -- go test ./...
func TestMany(t *testing.T) {
	count, err := strconv.Atoi(os.Getenv("MANY"))
	if err != nil {
		count = 20
	}
	for number := range count {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			t.Parallel()
			db := testdb.New(t)
			if err := Transfer(t.Context(), db, "Ada", "Grace", number%100); err != nil {
				t.Fatal(err)
			}
			expectBalance(t, db, "Grace", 20+number%100)
		})
	}
}
