module github.com/sqlfence/sqlfence

go 1.26.0
