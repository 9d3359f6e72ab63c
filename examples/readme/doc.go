// Command readme is the program whose middle README.md shows: it takes the lease on
// job-42 and marks the job as done, in the database that DATABASE_URL names.
package main
