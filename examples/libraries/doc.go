// Package libraries holds one program per library of the database/sql world,
// each written without any knowledge of sqlfence and then fenced. It is a module
// of its own, so that none of these libraries reaches the programs of others.
package libraries
