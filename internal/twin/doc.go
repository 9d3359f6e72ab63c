// Package twin holds the proof of sqlgen's splices on real servers: the same
// writes bare and guarded, on databases that began alike. It has nothing but
// tests, apart from sqlgen so that its own tests and fuzz targets need no
// driver.
package twin
