module lookaside.example/bart

go 1.26.8

require github.com/gaissmai/bart v0.30.0
