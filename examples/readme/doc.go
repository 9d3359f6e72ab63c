// Command readme is the program that README.md shows: it takes the lease on
// job-42 and marks the job as done, in the database that DATABASE_URL names.
package main
