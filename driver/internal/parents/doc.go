// Package parents tests the fence with drivers and middleware that the module
// itself does not depend on: mattn/go-sqlite3, which needs a C compiler, and
// XSAM/otelsql, over and under the fence.
package parents
