module github.com/sqlfence/sqlfence/bench

go 1.26.0

require github.com/sqlfence/sqlfence v0.0.0

replace github.com/sqlfence/sqlfence => ../
