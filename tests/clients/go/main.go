// Opens the server of `lookaside pg run` with the client that the first argument names.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"runtime/debug"

	"github.com/jackc/pgx/v5"
	_ "github.com/lib/pq"
)

const question = "select $1::int + 1, $2::text || '!', current_database()"

func check(number int, text, database string) {
	if number != 42 || text != "ä!" || database != os.Getenv("PGDATABASE") {
		log.Fatal(number, text, database)
	}
}

func libPq(where string) {
	db, err := sql.Open("postgres", where)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	var number int
	var text, database string
	if err := db.QueryRow(question, 41, "ä").Scan(&number, &text, &database); err != nil {
		log.Fatal(err)
	}
	check(number, text, database)
}

func pgxConnect(where string) {
	ctx := context.Background()
	connection, err := pgx.Connect(ctx, where)
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close(ctx)
	var number int
	var text, database string
	if err := connection.QueryRow(ctx, question, 41, "ä").Scan(&number, &text, &database); err != nil {
		log.Fatal(err)
	}
	check(number, text, database)
}

func main() {
	client, module := libPq, "github.com/lib/pq"
	if os.Args[1] == "pgx" {
		client, module = pgxConnect, "github.com/jackc/pgx/v5"
	}
	for _, where := range []string{os.Getenv("DATABASE_URL"), ""} {
		client(where)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				fmt.Println("ok", os.Args[1], dependency.Version)
			}
		}
	}
}
