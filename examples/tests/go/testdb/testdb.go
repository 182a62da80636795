// Package testdb gives each test a PostgreSQL database.
//
//	lookaside pg run --migrations migrations -- go test ./...
//
// starts a server, fills the database of DATABASE_URL with the migrations, and removes both at the end. That database
// is the template here: nobody connects to it, and each test gets a copy.
package testdb

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

var count atomic.Int64

// server runs statements in the database postgres: one that is copied must have no sessions.
var server = sync.OnceValue(func() func(sql string) error {
	var lock sync.Mutex
	config, err := config("postgres")
	if err != nil {
		return func(string) error { return err }
	}
	session, err := pgx.ConnectConfig(context.Background(), config)
	return func(sql string) error {
		if err != nil {
			return err
		}
		lock.Lock()
		defer lock.Unlock()
		_, err := session.Exec(context.Background(), sql)
		return err
	}
})

func config(database string) (*pgx.ConnConfig, error) {
	url := os.Getenv("DATABASE_URL")
	if url == "" {
		return nil, fmt.Errorf("DATABASE_URL is not set: lookaside pg run --migrations migrations -- go test ./...")
	}
	config, err := pgx.ParseConfig(url)
	if err == nil && database != "" {
		config.Database = database
	}
	return config, err
}

// New connects to a database that no other test sees, dropped after the test.
func New(t testing.TB) *pgx.Conn {
	t.Helper()
	template, err := config("")
	if err != nil {
		t.Fatal(err)
	}
	// Each package's tests are a process; all of them share the server.
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), count.Add(1))
	// Copies files, which is the cheapest way for a small template (PostgreSQL 15 and newer).
	create := fmt.Sprintf(`create database "%s" template "%s" strategy file_copy`, name, template.Database)
	if err := server()(create); err != nil {
		t.Fatal(err)
	}
	copied, err := config(name)
	if err != nil {
		t.Fatal(err)
	}
	db, err := pgx.ConnectConfig(t.Context(), copied)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		db.Close(context.Background())
		if err := server()(fmt.Sprintf(`drop database "%s" with (force)`, name)); err != nil {
			t.Error(err)
		}
	})
	return db
}
