// Looks up the longest prefix of addresses in the table of github.com/gaissmai/bart, over what
// `lookaside-bench contains --export DIR` wrote, and prints the time of one lookup.
//
//	go run . DIR [ROUNDS]
package main

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"time"

	"github.com/gaissmai/bart"
)

func lines(path string) []string {
	file, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	var found []string
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		found = append(found, scanner.Text())
	}
	return found
}

func main() {
	folder := os.Args[1]
	rounds := 5
	if len(os.Args) > 2 {
		rounds, _ = strconv.Atoi(os.Args[2])
	}
	table := new(bart.Table[int])
	for row, text := range lines(filepath.Join(folder, "values.txt")) {
		prefix := netip.MustParsePrefix(text).Masked()
		// The first of equal networks is the one that the lookup returns.
		if _, known := table.Get(prefix); !known {
			table.Insert(prefix, row)
		}
	}
	var keys []netip.Addr
	for _, text := range lines(filepath.Join(folder, "keys.txt")) {
		keys = append(keys, netip.MustParseAddr(text))
	}
	// FNV-1a over the rows, each ended by a line feed, as the other programs print it.
	hash := uint64(0xcbf29ce484222325)
	add := func(text string) {
		for _, char := range []byte(text + "\n") {
			hash = (hash ^ uint64(char)) * 0x100000001b3
		}
	}
	for _, key := range keys {
		if row, found := table.Lookup(key); found {
			add(strconv.Itoa(row))
		} else {
			add("")
		}
	}
	var nanos []float64
	sum := 0
	for round := 0; round <= rounds; round++ {
		start, count := time.Now(), 0
		for time.Since(start) < 500*time.Millisecond {
			for _, key := range keys {
				row, _ := table.Lookup(key)
				sum += row
			}
			count += len(keys)
		}
		if round > 0 {
			nanos = append(nanos, float64(time.Since(start).Nanoseconds())/float64(count))
		}
	}
	sort.Float64s(nanos)
	fmt.Printf("bart: wall %.1f ns (%.1f – %.1f), %d prefixes, hash %016x, sum %d\n",
		nanos[len(nanos)/2], nanos[0], nanos[len(nanos)-1], table.Size(), hash, sum)
}
