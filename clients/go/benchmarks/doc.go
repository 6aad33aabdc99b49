// Package benchmarks compares this module with the ADK's own service on SQLite:
//
//	SESSIOND_TEST_PROGRAM=$PWD/../../target/release/sessiond go test ./benchmarks -bench . -benchtime 2000x
package benchmarks
